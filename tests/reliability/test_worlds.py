"""The decision of `StableClassifier` in a few of the worlds of benchmarks/worlds.py: no harm, help, no coin."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from holdfast import StableClassifier

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def worlds():
    """Return the script of the worlds; benchmarks are scripts, not a package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        specification = importlib.util.spec_from_file_location("worlds", FOLDER / "worlds.py")
        module = importlib.util.module_from_spec(specification)
        patch.setitem(sys.modules, "worlds", module)  # its dataclasses look themselves up
        specification.loader.exec_module(module)
        yield module


def plain(worlds, name="logistic"):
    """Return an ordinary estimator."""
    return worlds.trust.ESTIMATORS[name](0)


def kept_shares(drawn, estimator, *, order=None, **options):
    """Return the kept share of every column, and the classifier."""
    rows = np.arange(len(drawn.y)) if order is None else order
    model = StableClassifier(estimator, random_state=0, **options)
    model.fit(drawn.X[rows], drawn.y[rows], environments=drawn.sites[rows])
    return np.array([model.verdict_.kept.get(f"x{j}", 1.0) for j in range(drawn.X.shape[1])]), model


@pytest.mark.parametrize(
    ("name", "estimator"),
    [("bent", "logistic"), ("bent", "boosting"), ("step", "logistic"), ("product", "boosting"), ("log", "logistic")],
)
def test_no_harm_where_the_relation_is_the_same(worlds, name, estimator):
    """Where P(y|x) is the same at every site, at most one point of accuracy is lost at known sites and at a new one."""
    drawn = worlds.draw_world(worlds.SAME[name], name, (5, 600), 0)
    _, model = kept_shares(drawn, plain(worlds, estimator))
    ordinary = plain(worlds, estimator).fit(drawn.X, drawn.y)
    for X, y in (drawn.same, drawn.new):
        assert model.score(X, y) >= ordinary.score(X, y) - 0.01


@pytest.mark.parametrize("layout", [(2, 500), (5, 500)])
def test_a_planted_code_is_given_up(worlds, layout):
    """Most of what the ordinary classifier loses at a site where a code turned is recovered."""
    world, found = worlds.PLANTED["code"], []
    for draw in range(2):
        drawn = worlds.draw_world(world, "code", layout, draw)
        _, model = kept_shares(drawn, plain(worlds))
        X, y = drawn.new
        ordinary = plain(worlds).fit(drawn.X, drawn.y)
        without = plain(worlds).fit(np.delete(drawn.X, world.planted, axis=1), drawn.y)
        found.append([ordinary.score(X, y), model.score(X, y), without.score(np.delete(X, world.planted, axis=1), y)])
    assert worlds.gap_closed(found) >= 0.85


def test_more_rows_and_more_evidence_keep_less(worlds):
    """The mean kept share of a planted code falls with the rows of each site and with how much the code changes."""
    means = {}
    for name, layout in (("code", (2, 100)), ("code", (2, 1000)), ("code 90/70", (2, 100))):
        draws = [worlds.draw_world(worlds.PLANTED[name], name, layout, draw) for draw in range(3)]
        means[name, layout] = np.mean([kept_shares(drawn, plain(worlds))[0][5] for drawn in draws])
    assert means["code", (2, 1000)] <= means["code", (2, 100)] + 0.02
    assert means["code 90/70", (2, 100)] <= means["code", (2, 100)] + 0.02
    assert means["code", (2, 1000)] < 0.1


@pytest.mark.parametrize("draw", [0, 2])
def test_one_label_moves_no_kept_share_far(worlds, draw):
    """One flipped label of 1,000 moves a kept share by at most 0.15."""
    name = "8% wrong labels"
    drawn = worlds.draw_world(worlds.SMOOTH[name], name, (2, 500), draw)
    before, _ = kept_shares(drawn, plain(worlds))
    for row in worlds.generator("smooth", name, draw).choice(len(drawn.y), 20, replace=False)[:4]:
        flipped = drawn.y.copy()
        flipped[row] = 1 - flipped[row]
        after, _ = kept_shares(replace(drawn, y=flipped), plain(worlds))
        assert np.abs(after - before).max() <= 0.15


def test_order_units_and_names_do_not_matter(worlds):
    """Row order, units of the columns and names of the sites change no kept share."""
    drawn = worlds.draw_world(worlds.SMOOTH["8% wrong labels"], "8% wrong labels", (2, 500), 1)
    before, _ = kept_shares(drawn, plain(worlds))
    order = np.random.default_rng(0).permutation(len(drawn.y))
    renamed = replace(drawn, sites=np.where(drawn.sites == "site 00", "zulu", "alpha"))
    in_other_units = replace(drawn, X=drawn.X * [10.0, 0.1, 3.0, -2.0, 5.0] + 7.0)
    assert kept_shares(drawn, plain(worlds), order=order)[0] == pytest.approx(before, abs=0.05)
    assert kept_shares(renamed, plain(worlds))[0] == pytest.approx(before, abs=0.05)
    assert kept_shares(in_other_units, plain(worlds))[0] == pytest.approx(before, abs=0.05)


def test_caution_goes_from_all_to_nothing(worlds):
    """Caution 0 uses every column whole, and more caution never keeps more."""
    drawn = worlds.draw_world(worlds.PLANTED["code"], "code", (2, 500), 0)
    shares = np.array([kept_shares(drawn, plain(worlds), caution=c)[0] for c in (0.0, 0.5, 0.75, 1.0)])
    assert (shares[0] == 1.0).all()
    assert (np.diff(shares, axis=0) <= 1e-9).all()
    assert shares[-1, 5] == 0.0


def test_an_ignored_column_is_ignored(worlds):
    """A column with kept share 0 changes no answer, and without any such column the classifier is the ordinary one."""
    drawn = worlds.draw_world(worlds.PLANTED["code"], "code", (2, 1500), 0)
    shares, model = kept_shares(drawn, plain(worlds))
    X, _ = drawn.new
    turned = X.copy()
    turned[:, 5] = 1 - turned[:, 5]
    assert shares[5] == 0.0
    assert np.array_equal(model.predict_proba(X), model.predict_proba(turned))
    shares, model = kept_shares(drawn, plain(worlds), caution=0.0)
    ordinary = clone(plain(worlds)).fit(drawn.X, drawn.y)
    assert (shares == 1.0).all()
    assert np.array_equal(model.predict(X), ordinary.predict(X))


@pytest.mark.parametrize("name", ["2s", "3s"])
def test_forecasts_of_the_unit_tests_give_no_false_assurance(worlds, name):
    """Where the classifier rests on what was never seen to vary, the forecast includes the error that follows."""
    drawn, (X, y) = worlds.draw_units(name, 3, 0)
    _, model = kept_shares(drawn, plain(worlds))
    assert model.verdict_.forecast.low <= model.score(X, y) <= model.verdict_.forecast.high


def test_fresh_draws_depend_on_the_seed_alone(worlds):
    """A world gives the same rows twice, other rows in another draw, and turns what it says it turns."""
    world = worlds.PLANTED["code"]
    first, again, other = (worlds.draw_world(world, "code", (3, 300), draw) for draw in (0, 0, 1))
    assert np.array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    agreement = [
        np.mean(first.X[first.sites == site, 5] == first.y[first.sites == site]) for site in ("site 00", "site 02")
    ]
    assert agreement == pytest.approx([0.95, 0.85], abs=0.05)
    assert np.mean(first.new[0][:, 5] == first.new[1]) == pytest.approx(0.1, abs=0.02)


def test_same_worlds_have_one_law(worlds):
    """A flexible learner that knows the site does no better than one that does not: P(y|x) is the same."""
    for name in ("bent", "product", "log", "integer codes"):
        drawn = worlds.draw_world(worlds.SAME[name], name, (5, 2000), 0)
        codes, fresh = (np.repeat(np.arange(5), n)[:, None] for n in (2000, worlds.TEST_ROWS // 5))
        without = plain(worlds, "boosting").fit(drawn.X, drawn.y)
        knowing = plain(worlds, "boosting").fit(np.hstack([drawn.X, codes]), drawn.y)
        X, y = drawn.same
        assert knowing.score(np.hstack([X, fresh]), y) <= without.score(X, y) + 0.01
