"""The paper's numbers, as they were typed."""

import numpy as np
import pytest

from holdfast.datasets.ask2me import ATTRIBUTES
from holdfast.lab import paper


@pytest.mark.parametrize(("table", "n_attributes"), [(paper.NATURAL["ask2me"], 17), (paper.NATURAL["celeba"], 39)])
def test_averages_are_those_of_the_attributes(table, n_attributes):
    """The printed averages follow from the printed attributes."""
    attributes = [values for name, values in table.items() if name != "Average"]
    assert len(attributes) == n_attributes
    for method in paper.NATURAL_METHODS:
        for column in (0, 1):
            mean = np.mean([values[method][column] for values in attributes])
            assert mean == pytest.approx(table["Average"][method][column], abs=0.011)


def test_gains_follow_from_table_1():
    """The gains of the text are those of Table 1 over the best baseline, up to how it is averaged."""
    for column, setting in enumerate(("test", "train")):
        gains = [
            values["pi"][column] - max(values[method][column] for method in ("erm", "group_dro", "irm", "rgm"))
            for values in paper.TABLE1.values()
        ]
        assert np.mean(gains) == pytest.approx(paper.GAINS[setting].value, abs=1.0)
    over_irm = [values["pi"][1] - values["irm"][1] for values in paper.TABLE1.values()]
    assert np.mean(over_irm) == pytest.approx(paper.GAIN_OVER_IRM.value, abs=0.006)


def test_natural_gains_follow_from_tables_3_and_4():
    """Over DRO in each table, over IRM in the mean of both, worst accuracy."""
    averages = {"ask2me": paper.NATURAL["ask2me"]["Average"], "celeba": paper.NATURAL["celeba"]["Average"]}
    for key, values in averages.items():
        assert values["pi"][0] - values["group_dro"][0] == pytest.approx(paper.GAINS_OVER_DRO[key].value)
    over_irm = [values["pi"][0] - values["irm"][0] for values in averages.values()]
    assert np.mean(over_irm) == pytest.approx(paper.NATURAL_GAIN_OVER_IRM.value)


def test_attributes_have_the_names_of_the_data():
    """Printed rows can be found by the attribute's name in the files."""
    assert set(ATTRIBUTES) <= set(paper.NATURAL["ask2me"])
    assert {"Male", "Wearing_Hat", "5_o_Clock_Shadow"} <= set(paper.NATURAL["celeba"])


def test_every_method_of_table_1_has_published_settings():
    """The authors' hyper-parameters cover every cell."""
    for key, values in paper.TABLE1.items():
        assert set(paper.AUTHORS[key]) == set(values)
    assert paper.AUTHORS["mnist"]["irm"] == {
        "learning_rate": 1e-3, "weight_decay": 1e-2, "dropout": 0.5, "warm_up": 1000, "penalty_weight": 0.01,
    }  # fmt: skip
