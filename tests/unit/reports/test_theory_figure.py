from __future__ import annotations

import numpy as np

from holdfast.reports.figures import describe_half_curves, draw_half_curves
from holdfast.theory.halves import half_curves


def test_figure_shows_the_curves() -> None:
    """The left panel has five curves, the right one the two oracles; each is drawn from the data unchanged."""
    curves = half_curves(0.1, 0.2, etas=[0.1, 0.2, 0.3])
    left, right = draw_half_curves(curves).axes
    drawn = {str(line.get_label()): line.get_ydata() for line in (*left.get_lines(), *right.get_lines())}
    assert np.array_equal(drawn["mistaken half, soft"], curves.mistaken["soft"])
    assert np.array_equal(drawn["correct half, hard"], curves.correct["hard"])
    assert np.array_equal(drawn["soft halves"], curves.oracle["soft"], equal_nan=True)
    assert np.array_equal(drawn["whole environment"], curves.judged)


def test_figure_has_a_text_alternative() -> None:
    """The words carry the numbers at the chosen η."""
    text = describe_half_curves(half_curves(0.1, 0.2, 0.2))
    assert text.startswith("Judge η = 0.1, judged η = 0.2, noise 0.2: x2 and y correlate at +0.60")
    assert "soft halves: +0.87 where the judge is right, -0.38 where it is wrong, oracle at weight 0.31" in text
