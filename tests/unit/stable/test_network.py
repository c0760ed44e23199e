"""The decision for inputs without columns, on plain scores."""

import numpy as np
import pytest

from holdfast.stable.network import (
    LIKELY,
    WORDS,
    NetworkRows,
    find_network,
    fit_site,
    weigh,
)

SIGNAL = np.log(0.75 / 0.25)


def log_odds(codes, strength):
    """Return centered two-class scores that speak for a code."""
    lead = np.where(codes == 1, strength, -strength)
    return np.stack([-lead / 2, lead / 2], axis=1)


def make_rows(agreements, *, n=2000, noise=(0.0, 0.0), rates=(0.5, 0.5), seed=0):
    """Return scores of two networks: f uses a stable and an unstable code, g the stable one alone."""
    rng = np.random.default_rng(seed)
    parts = []
    for agreement, wrong, rate in zip(agreements, noise, rates, strict=True):
        y = (rng.random(n) < rate).astype(int)
        stable = np.where(rng.random(n) < 0.75, y, 1 - y)
        unstable = np.where(rng.random(n) < agreement, y, 1 - y)
        y = np.where(rng.random(n) < wrong, 1 - y, y)
        jitter = 0.3 * rng.standard_normal((2, n))  # no network is a function of two codes
        f = log_odds(stable, SIGNAL) + log_odds(unstable, 2.0) + np.stack([-jitter[0], jitter[0]], axis=1)
        g = log_odds(stable, SIGNAL) + np.stack([-jitter[1], jitter[1]], axis=1)
        parts.append((f, g, y))
    f, g, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return NetworkRows(f, g, y, np.repeat([0, 1], n))


def test_a_difference_between_sites_is_found():
    """The unstable code agrees in 95 % of the rows at one site and in 80 % at the other."""
    rows = make_rows((0.95, 0.8))
    assert rows.evidence.probability > 0.99
    assert rows.evidence.p_value < 1e-6
    assert rows.kept(rows.weights(0.75)) < 0.1
    assert find_network(rows, rows.weights(0.75)).outcome == "unstable"


@pytest.mark.parametrize(
    "rows",
    [
        make_rows((0.9, 0.9)),
        make_rows((0.9, 0.9), rates=(0.2, 0.7)),
        make_rows((0.9, 0.9), noise=(0.0, 0.2)),
    ],
    ids=["nothing", "label shift", "noisier labels"],
)
def test_what_is_the_same_everywhere_is_kept(rows):
    """Two stable signals, other label rates and noisier labels at one site are no evidence."""
    assert rows.evidence.probability < LIKELY
    assert rows.weights(0.75) == (1.0, 0.0)
    assert rows.weights(1.0) == (1.0, 0.0)
    assert rows.compare((1.0, 0.0)).ordinary == rows.compare((1.0, 0.0)).fitted


def test_false_alarms_are_rare():
    """With nothing unstable the probability passes one half in at most 2 of 40 draws."""
    found = [make_rows((0.85, 0.85), n=600, seed=seed).evidence for seed in range(40)]
    assert sum(evidence.probability >= LIKELY for evidence in found) <= 2
    assert sum(evidence.p_value < 0.05 for evidence in found) <= 6


def test_caution_zero_gives_nothing_up():
    """At caution 0 the next site is like these."""
    assert make_rows((0.95, 0.8)).weights(0.0) == (1.0, 0.0)


def test_less_caution_keeps_some_of_it():
    """Between as seen and vanished, a part of what the ordinary network has beyond the stable one is used."""
    rows = make_rows((0.95, 0.8))
    kept = [rows.kept(rows.weights(caution)) for caution in (0.0, 0.2, 0.5)]
    assert kept[0] == 1.0
    assert 0.1 < kept[1] < 0.9
    assert kept[2] < 0.1


def test_the_forecast_of_a_vanished_relation_is_near_the_truth():
    """Rows are weighted so that h is right half of the time: accuracies are those of a site without the relation."""
    rows, gone = make_rows((0.95, 0.8)), make_rows((0.5, 0.5), seed=1)
    found = rows.compare((0.0, 1.0), rows.share(0.5))
    assert found.ordinary == pytest.approx(gone.compare((0.0, 1.0)).ordinary, abs=0.05)
    assert found.fitted == pytest.approx(0.75, abs=0.05)
    turned = rows.compare((0.0, 1.0), rows.reversed_share)
    assert turned.ordinary < found.ordinary < found.fitted


def test_the_better_stable_network_is_chosen():
    """Of two stable classifiers the one without noise is taken; the evidence stays that of the first."""
    rows = make_rows((0.95, 0.8))
    noisy = rows.stable + np.random.default_rng(1).standard_normal(rows.stable.shape)
    assert rows.choose(noisy) == (False, rows)
    first = NetworkRows(rows.ordinary, noisy, rows.y, rows.sites)
    changed, better = first.choose(rows.stable)
    assert changed
    assert better.evidence is first.evidence
    np.testing.assert_array_equal(better.stable, rows.stable)


def test_weights_of_rows_keep_sites_and_labels():
    """Reweighting changes how often h is right and leaves label rates alone."""
    rows = make_rows((0.95, 0.8), rates=(0.3, 0.6))
    weights = rows.reweighted(0.5)
    for site in (0, 1):
        own = rows.sites == site
        assert np.average(rows.y[own], weights=weights[own]) == pytest.approx(rows.y[own].mean(), abs=1e-9)


def test_few_rows_say_nothing():
    """With 60 rows a site the answer is that it cannot be told, and more rows would help."""
    rows = make_rows((0.9, 0.85), n=60)
    found = find_network(rows, (1.0, 0.0))
    assert (found.outcome, found.reason) == ("cannot_tell", "few_rows")
    assert WORDS["few_rows"][1] in found.answer


def test_a_stable_network_that_learned_nothing_says_nothing():
    """Where g is noise, the comparison cannot tell."""
    rows = make_rows((0.9, 0.9))
    noise = np.random.default_rng(0).standard_normal(rows.stable.shape)
    found = find_network(NetworkRows(rows.ordinary, noise, rows.y, rows.sites), (1.0, 0.0))
    assert found.outcome == "cannot_tell"


def test_a_readable_site_is_no_evidence():
    """If the site can be read off the input, neither a difference nor its absence says anything: the ordinary one."""
    for agreements in ((0.9, 0.9), (0.95, 0.7)):
        rows = make_rows(agreements)
        readable = NetworkRows(rows.ordinary, rows.stable, rows.y, rows.sites, readable=0.95)
        assert readable.weights(0.75) == (1.0, 0.0)
        found = find_network(readable, (1.0, 0.0))
        assert (found.outcome, found.reason) == ("cannot_tell", "site_readable")
    assert rows.weights(0.75)[1] > 0
    assert find_network(make_rows((0.9, 0.9)), (1.0, 0.0)).outcome == "nothing_found"


def test_the_price_of_the_stable_network_is_always_said():
    """g is right in 75 % of the rows, f in 90 %: the price is about 15 points, with or without evidence."""
    rows = make_rows((0.9, 0.9))
    found = find_network(rows, (1.0, 0.0))
    lost = rows.compare((0.0, 1.0))
    assert found.stable_price.value == pytest.approx(lost.ordinary - lost.fitted)
    assert f"{100 * found.stable_price.value:.1f} points" in found.price


def test_three_classes_and_sites():
    """An unstable code of three classes at three sites is found."""
    rng, parts = np.random.default_rng(0), []
    for agreement in (0.95, 0.8, 0.65):
        y = rng.integers(3, size=1500)
        codes = [
            np.where(rng.random(1500) < share, y, (y + rng.integers(1, 3, 1500)) % 3) for share in (0.7, agreement)
        ]
        jitter = 0.3 * rng.standard_normal((2, 1500, 3))
        stable, unstable = (strength * np.eye(3)[code] for strength, code in zip((1.5, 2.5), codes, strict=True))
        parts.append((stable + unstable + jitter[0], stable + jitter[1], y))
    f, g, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    assert weigh(f, g, y, np.repeat([0, 1, 2], 1500)).probability > 0.99


def test_wrong_labels_at_a_site_are_estimated():
    """A quarter of the labels drawn at random is found, and the weight stays that of the right labels."""
    rng = np.random.default_rng(0)
    lead = 4 * rng.standard_normal(20_000)
    y = (rng.random(20_000) < 1 / (1 + np.exp(-lead))).astype(int)
    y = np.where(rng.random(20_000) < 0.25, rng.integers(2, size=20_000), y)
    found = fit_site([np.stack([-lead / 2, lead / 2], axis=1)], y)
    assert found.noise == pytest.approx(0.25, abs=0.03)
    assert found.weights[0] == pytest.approx(1.0, abs=0.1)
