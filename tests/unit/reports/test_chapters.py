from types import SimpleNamespace

import pandas as pd
import pytest

from holdfast.reports.chapters import audit_section, audit_table, half_figures, reliance_table
from holdfast.theory import half_curves


def audit_of(frame: pd.DataFrame, *sentences: str) -> SimpleNamespace:
    """Return what an audit looks like from outside."""
    return SimpleNamespace(evidence=("Named: 1.",), sentences=lambda: (*sentences, "Named: 1."), to_frame=lambda: frame)


def test_ranking_in_readable_words():
    """Columns are renamed, named features emphasized, rounding errors are zero, p values keep their size."""
    frame = pd.DataFrame(
        {"feature": ["x2", "x1"], "mistaken_soft": [-0.5, 1e-16], "p_value": [1e-20, 0.5], "named": [True, False]}
        | {"explained_by": [None, "x2"], "other": [1, 2]}
    )
    table = audit_table(audit_of(frame))
    assert table.columns == ("feature", "mistaken half (soft)", "p", "named", "explained by")
    assert table.rows == (("x2", -0.5, 1e-20, True, None), ("x1", 0.0, 0.5, False, "x2"))
    assert table.marked == ((0, 0),)


def test_long_rankings_say_what_is_left_out():
    """300 findings are shown, the rest is counted."""
    table = audit_table(audit_of(pd.DataFrame({"feature": [f"x{n}" for n in range(1000)]})))
    assert len(table.rows) == 300
    assert table.note.endswith("700 more findings are left out.")


def test_nothing_found_is_said():
    """Without findings the evidence alone speaks; without an audit there is no section."""
    section = audit_section(audit_of(pd.DataFrame({"feature": []})))
    assert [block.lines for block in section.blocks] == [("Named: 1.",)]
    assert audit_section(None) is None


def test_reliance_stands_beside_the_audit():
    """What classifiers rely on is a table, with or without an audit."""
    frame = pd.DataFrame({"feature": ["x2"], "n_rows": [10], "PI: fall": [0.25]})
    reliance = SimpleNamespace(to_frame=lambda: frame)
    assert reliance_table(reliance).columns == ("feature", "rows", "PI: fall")
    assert audit_section(None, reliance).blocks == (reliance_table(reliance),)


def test_half_figures_show_the_curves():
    """The first figure has five curves, the second the two oracles; each is drawn from the data unchanged."""
    curves = half_curves(0.1, 0.2, etas=[0.1, 0.2, 0.3])
    drawn = {line.name: line.y for figure in half_figures(curves) for line in figure.lines}
    assert len(drawn) == 7
    assert drawn["mistaken half, soft"] == tuple(curves.mistaken["soft"])
    assert drawn["correct half, hard"] == tuple(curves.correct["hard"])
    assert drawn["soft halves"] == pytest.approx(tuple(curves.oracle["soft"]), nan_ok=True)
    assert drawn["whole environment"] == tuple(curves.judged)


def test_half_figures_have_a_text_alternative():
    """The words carry the numbers at the chosen η."""
    note = half_figures(half_curves(0.1, 0.2, 0.2))[0].note
    assert note.startswith("Judge η = 0.1, judged η = 0.2, noise 0.2: x2 and y correlate at +0.60")
    assert "soft halves: +0.87 where the judge is right, -0.38 where it is wrong, oracle at weight 0.31" in note
