import numpy as np
import pandas as pd
import pytest

from holdfast import TableClassifier
from holdfast.exceptions import NewSiteWarning, ParameterError, TableError
from holdfast.tables.roles import TableOptions, read_rows
from holdfast.tables.scales import Scale, apply_scales

ROLES = {"label": "ill", "environment": "site"}


def patients():
    """Return rows of two sites; creatinine is in µmol/L in Lyon, and some labels and sites are missing."""
    generator = np.random.default_rng(0)
    ill = generator.integers(2, size=200)
    frame = pd.DataFrame({"site": ["Boston", "Lyon"] * 100, "creatinine": 1 + 0.3 * generator.random(200) + ill})
    frame.loc[frame["site"] == "Lyon", "creatinine"] *= 88.4
    return frame.assign(ill=ill)


@pytest.mark.parametrize(
    ("text", "column", "site", "factor", "offset"),
    [
        ("t@Lyon=1/1.8-32/1.8", "t", "Lyon", 1 / 1.8, -32 / 1.8),
        ("t@Lyon=1.8+32", "t", "Lyon", 1.8, 32.0),
        ("t=1e3", "t", "", 1000.0, 0.0),
        ("mail@home@Lyon=2", "mail@home", "Lyon", 2.0, 0.0),
    ],
)
def test_rules_are_read(text, column, site, factor, offset):
    """A factor, an offset, all rows without a site, and names that contain @."""
    found = Scale.parse(text, ["t", "mail@home"])
    assert (found.column, found.site) == (column, site)
    assert (found.factor, found.offset) == pytest.approx((factor, offset))


@pytest.mark.parametrize("text", ["t@Lyon", "t@Lyon=0", "t@Lyon=1/0", "=2", "t@Lyon=half"])
def test_what_is_no_rule_is_refused(text):
    """The error shows how to write one."""
    with pytest.raises(ParameterError, match="is not a rule. Write COLUMN@SITE=FACTOR"):
        Scale.parse(text, ["t"])


def test_unknown_columns_sites_and_texts_are_refused():
    """Each is named, with what there is."""
    frame = patients()
    for rule, match in (("crea@Lyon=2", "names no feature column"), ("creatinine@Lion=2", "names no known site")):
        with pytest.raises(TableError, match=match):
            read_rows(frame, TableOptions(**ROLES, scale=rule))
    with pytest.raises(TableError, match="does not contain numbers"):
        apply_scales(frame, [Scale("site", "", 2.0, 0.0, "site=2")], None)


def test_the_saved_model_converts_too(tmp_path):
    """Fit, saved and loaded model convert the site's unit; without the site column a warning says that they do not."""
    frame, rule = patients(), "creatinine@Lyon=1/88.4"
    converted = frame.assign(creatinine=frame["creatinine"].where(frame["site"] != "Lyon", frame["creatinine"] / 88.4))
    plain = TableClassifier(**ROLES, method="erm").fit(converted)
    model = TableClassifier(**ROLES, method="erm", scale=rule).fit(frame)
    model.save(tmp_path / "model")
    loaded = TableClassifier.load(tmp_path / "model")
    assert loaded.scale == (rule,)
    expected = plain.predict_proba(converted)
    for found in (model, loaded):
        assert found.predict_proba(frame) == pytest.approx(expected)
    with pytest.warns(NewSiteWarning, match="There is no column 'site', so conversions of units by site are not"):
        list(loaded.predict_chunks(frame[["creatinine"]][:1]))
    assert "creatinine" in {problem.column for problem in read_rows(frame, TableOptions(**ROLES)).problems}
    (problem,) = [p for p in read_rows(frame, TableOptions(**ROLES)).problems if p.key == "unit"]
    assert problem.options == ("--scale", rule)
    mended = read_rows(frame, TableOptions(**ROLES, scale=problem.options[1]))
    assert "unit" not in {found.key for found in mended.problems}


def test_rows_without_label_or_site_are_dropped_on_request():
    """They are refused by default, with the option in the error; dropped rows are counted, spaces are blank too."""
    frame = patients().assign(ill=lambda t: t["ill"].map({0: "no", 1: "yes"}))
    frame.loc[:4, "ill"] = " "
    frame.loc[10:11, "site"] = None
    with pytest.raises(TableError, match=r"'ill' is missing in 5 of 200 rows .* with missing_labels='drop'"):
        read_rows(frame, TableOptions(**ROLES))
    rows = read_rows(frame, TableOptions(**ROLES, missing_labels="drop"))
    assert len(rows.y) == 193
    assert rows.notes == (
        "5 of 200 rows are left out because 'ill' is missing",
        "2 of 200 rows are left out because 'site' is missing",
    )
    with pytest.raises(ParameterError, match="missing_labels='fill' is not a choice"):
        TableOptions(**ROLES, missing_labels="fill")
