import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from holdfast.diagnosis.loss_split import Losses, split_loss

WEIGHTS = np.array([1.5, 1.0, -1.0, 0.0])


def draw(generator, n_rows, shift=None):
    """Return rows whose class depends on three of four columns; one thing may differ at the new site."""
    X = generator.normal(size=(n_rows * 12, 4))
    weights = WEIGHTS
    if shift == "covariate_shift":  # more of those who are hard to tell
        X = 0.4 * X + [0.6, 0.0, 0.0, 0.0]
    if shift == "concept_shift":
        weights = WEIGHTS * [1, -1, 1, 1]
    y = (generator.random(len(X)) < 1 / (1 + np.exp(1 - X @ weights))).astype(np.intp)
    kept = generator.random(len(X)) < np.where(y, 1.0, 0.1 if shift == "label_shift" else 1.0)
    kept = np.flatnonzero(kept)[:n_rows]
    return X[kept], y[kept]


def rows(X, y, chance):
    """Return the rows with log losses and log-odds."""
    losses = -np.log(np.where(y == 1, chance, 1 - chance))
    return Losses(losses, y, np.log(chance / (1 - chance))[:, None], X)


def split(shift, seed, n_new=400):
    """Fit a logistic regression at known sites, and split its loss at a new one."""
    generator = np.random.default_rng(seed)
    X, y = draw(generator, 900)
    folds, chance = np.arange(900) % 5, np.empty(900)
    for fold in range(5):
        model = LogisticRegression().fit(X[folds != fold], y[folds != fold])
        chance[folds == fold] = model.predict_proba(X[folds == fold])[:, 1]
    new, new_y = draw(generator, n_new, shift)
    answers = LogisticRegression().fit(X, y).predict_proba(new)[:, 1]
    return split_loss(rows(X, y, chance), rows(new, new_y, answers), generator=generator)


@pytest.mark.parametrize("shift", ["covariate_shift", "label_shift", "concept_shift"])
def test_a_shift_of_one_kind_is_found_in_its_part_alone(shift):
    """Where one thing differs, its part holds nearly all of the loss beyond its interval; the others hold little."""
    found = [split(shift, seed) for seed in range(4)]
    whole = np.mean([one.new - one.known for one in found])
    assert whole > 0.1
    means = {name: np.mean([one.parts[name].value for one in found]) for name in found[0].parts}
    assert means.pop(shift) == pytest.approx(whole, abs=0.25 * whole)
    assert max(map(abs, means.values())) < 0.2 * whole
    assert all(one.parts[shift].low > 0 for one in found)


def test_the_parts_sum_to_the_difference_and_cover_nothing_where_nothing_differs():
    """Without a shift every interval has zero in it, nearly always."""
    found = [split(None, seed) for seed in range(6)]
    for one in found:
        assert sum(part.value for part in one.parts.values()) == pytest.approx(one.new - one.known)
    inside = [part.low <= 0 <= part.high for one in found for part in one.parts.values()]
    assert np.mean(inside) >= 0.85
    assert not any(one.by_score for one in found)
    assert min(one.n_alike for one in found) > 600


def test_sites_that_nobody_resembles_are_compared_by_score():
    """Columns in which hardly any known row is like the new ones are given up; the scores still tell the truth."""
    generator = np.random.default_rng(0)
    (X, y), (new, new_y) = draw(generator, 600), draw(generator, 300)
    chance = [1 / (1 + np.exp(1 - part @ WEIGHTS)) for part in (X, new)]
    far = new + [0, 0, 0, 3.0]  # the last column says nothing about the class
    found = split_loss(rows(X, y, chance[0]), rows(far, new_y, chance[1]), generator=generator)
    assert found.by_score
    assert found.n_alike > 300
    assert abs(found.parts["concept_shift"].value) < 0.1


def test_a_class_that_is_missing_on_one_side_breaks_nothing():
    """Known rows without a class, and a new site with one class only, give finite parts."""
    generator = np.random.default_rng(0)
    X, y = draw(generator, 300)
    chance = np.full(300, 0.4)
    one_class = rows(X[:100], np.ones(100, dtype=np.intp), chance[:100])
    for known, new in ((rows(X, y, chance), one_class), (one_class, rows(X, y, chance))):
        found = split_loss(known, new, generator=generator)
        assert all(np.isfinite([part.value, part.low, part.high]).all() for part in found.parts.values())


def test_a_site_of_one_row_is_split_too():
    """It was left out with its fold, and then nothing was known of the new site."""
    found = split(None, 0, n_new=1)
    assert sum(part.value for part in found.parts.values()) == pytest.approx(found.new - found.known)
