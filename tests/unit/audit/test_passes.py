"""The search in passes over blocks: on the same rows it finds what the search in memory finds."""

import numpy as np
import pytest

from holdfast.audit import effects, model
from holdfast.audit.effects import Effect, find_unstable
from holdfast.audit.passes import LITTLE, Question, block_sums, search_in_passes
from holdfast.interpolation.verdict import kept_share


def draw(seed, n_classes, noise, n_rows=2400, *, skewed=False):
    """Return rows of four sites: column 1 changes, 4 goes with it, 2 and 3 are codes; labels may be noisier at one."""
    generator = np.random.default_rng(seed)
    y, codes = generator.integers(n_classes, size=n_rows), generator.integers(4, size=n_rows)
    X = generator.normal(size=(n_rows, 6))
    X[:, 0] += y
    X[:, 1] += y * np.array([2.0, 1.0, -1.0, 0.5])[codes]
    X[:, 2], X[:, 3] = generator.integers(3, size=n_rows) == 0, generator.integers(2, size=n_rows) == y
    X[:, 4] += 0.7 * X[:, 1]
    if skewed:
        X[:, 5] = np.exp(X[:, 5] + y)
    noisy = (codes == 1) & (generator.random(n_rows) < noise)
    return X, np.where(noisy, generator.integers(n_classes, size=n_rows), y), codes


def adding(X, y, codes, passes):
    """Return a pass over seven blocks, which notes the number of questions."""

    def add_up(recipe, questions):
        passes.append(len(questions))
        blocks = np.array_split(np.arange(len(y)), 7)
        answers = [block_sums(recipe, X[block], y[block], codes[block], questions) for block in blocks]
        return [tuple(map(sum, zip(*parts, strict=True))) for parts in zip(*answers, strict=True)]

    return add_up


@pytest.mark.parametrize(
    ("n_classes", "groups", "noise", "noisier", "skewed"),
    [
        (2, (), 0.0, False, False),
        (2, ((2, 3),), 0.3, True, False),
        (3, ((2, 3),), 0.3, True, False),
        (2, ((2, 3),), 0.0, False, True),
    ],
)
def test_passes_find_what_memory_finds(monkeypatch, n_classes, groups, noise, noisier, skewed):
    """Columns, p values, statistics and effects of all rows are the same, up to where fits stop."""
    monkeypatch.setattr(model, "ENOUGH", 1e-12)
    monkeypatch.setattr(model, "NARROW", 0)  # all digits
    monkeypatch.setattr(effects, "_deal", lambda keys, y, codes, n: (keys >> 32).astype(np.intp) % n)
    X, y, codes = draw(1, n_classes, noise, skewed=skewed)
    passes = []
    options = {"n_classes": n_classes, "groups": groups}
    whole = find_unstable(X, y, codes, **options)
    streamed = find_unstable(X, y, codes, **options, make_search=search_in_passes(adding(X, y, codes, passes)))
    assert [effect.column for effect in streamed.effects] == [effect.column for effect in whole.effects] == [1, 4]
    assert streamed.noisier == whole.noisier == noisier
    np.testing.assert_allclose(streamed.p_values, whole.p_values, atol=2e-3 if noisier else 1e-5)
    for a, b in zip(streamed.effects, whole.effects, strict=True):
        assert a.statistic == pytest.approx(b.statistic, rel=1e-6)
        assert (a.rival, a.size) == pytest.approx((b.rival, b.size), rel=1e-4)
        np.testing.assert_allclose(a.by_environment, b.by_environment, atol=1e-5)
        np.testing.assert_allclose(a.errors, b.errors, rtol=1e-3)  # they are those of the step before


def test_all_rows_count_where_a_sample_is_in_memory():
    """The sample only says how columns are coded: what it cannot tell, all rows do, with the effects of all."""
    generator = np.random.default_rng(0)
    codes, y = generator.integers(4, size=40_000), generator.integers(2, size=40_000)
    X = generator.normal(size=(40_000, 4))
    X[:, 0] += 0.8 * y
    X[:, 1] += y * np.array([0.5, 0.5, 0.5, 0.7])[codes]
    rows, passes = slice(0, 4000), []
    assert not find_unstable(X[rows], y[rows], codes[rows], n_classes=2).effects
    (whole,) = find_unstable(X, y, codes, n_classes=2).effects
    search = search_in_passes(adding(X, y, codes, passes))
    (streamed,) = find_unstable(X[rows], y[rows], codes[rows], n_classes=2, make_search=search).effects
    assert streamed.column == whole.column == 1
    assert streamed.statistic == pytest.approx(whole.statistic, rel=0.02)
    np.testing.assert_allclose(streamed.by_environment, whole.by_environment, atol=0.02)
    np.testing.assert_allclose(streamed.errors, whole.errors, rtol=0.02)
    assert len(passes) <= 9


def test_changes_that_are_too_small_to_act_on_are_named_together():
    """With many rows all columns pass; the search does not go on one by one once a change is too small to act on."""
    generator, n_rows = np.random.default_rng(0), 100_000
    codes, y = generator.integers(3, size=n_rows), generator.integers(2, size=n_rows)
    changes = np.outer([-0.08, 0.0, 0.08], [1, -1, 1, -1, 0])
    X = generator.normal(size=(n_rows, 5)) + y[:, None] * (0.5 + changes[codes])
    rows, passes = slice(0, 4000), []
    search = search_in_passes(adding(X, y, codes, passes))
    found = find_unstable(X[rows], y[rows], codes[rows], n_classes=2, make_search=search).effects
    assert {0, 1, 2, 3} <= {effect.column for effect in found}
    assert all(kept_share(effect) == 1.0 for effect in found)
    assert len(passes) <= 12
    at_most = Effect(0, 1e3, 0.0, 0.0, (0, 1), np.ones(3), np.ones(3), 1.0, 1.0, LITTLE)
    assert kept_share(at_most) == 1.0


def test_a_step_that_is_too_long_is_halved():
    """A fit that begins far from the solution still gets there."""
    X, y, codes = draw(0, 2, 0.0)
    found = []

    def make(*arguments):
        searching = search_in_passes(adding(X, y, codes, []))(*arguments)
        common = np.zeros(searching.codings[0].design.shape[2])
        for start in (common, common + 4.0):
            asked = Question(0, 1.0, (), start, np.zeros((4, 1)), tests_rivals=True)
            found.append(searching.settle([asked])[0][0].model.common)
        return searching

    find_unstable(X, y, codes, n_classes=2, make_search=make)
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)
