import numpy as np
import pandas as pd
import pytest

from holdfast.diagnosis.profile import profile_columns


def two_sites(a, b):
    """Return a frame of one column `x` with the rows of two sites, and the sites."""
    values = [*a, *b]
    return pd.DataFrame({"x": values}), ["a"] * len(a) + ["b"] * len(b)


def sentences(a, b):
    """Return what does not fit in a column of two sites."""
    return profile_columns(*two_sites(a, b)).sentences


def test_every_cell_in_a_few_words():
    """Numbers have quartiles, categories their most frequent level, both the share of missing values."""
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0, np.nan], "kind": ["u", "u", "v", None], "flag": [0, 1, 1, 1]})
    profile = profile_columns(frame, ["a"] * 4)
    assert [cell.text for (cell,) in profile.cells] == [
        "2 (1.5 to 2.5); 25% missing",
        "u 67%, 2 levels; 25% missing",
        "75% are 1",
    ]
    assert (profile.problems, profile.marked) == ((), ())


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ([1.0, 2.0] * 10, [np.nan] * 15 + [1.0, 2.0] * 5, "`x` is missing in 60% of rows in b, but in 0% in a."),
        ([200.0, 240.0] * 10, [7.0] * 20, "`x` is always 7 in b, but varies elsewhere."),
        (
            [200.0, 240.0] * 20,
            [0.0] * 10 + [200.0, 240.0] * 10,
            "`x` is 0 in 33% of rows in b and hardly anywhere else: does 0 mean missing? If so, empty these cells.",
        ),
        (
            np.linspace(150, 250, 40),
            np.linspace(4, 6, 40),
            "`x` is about 1/38.7 as large in b as elsewhere (median 5 against 200), which fits mmol/L instead of mg/dL "
            "(cholesterol).",
        ),
        (
            np.linspace(97, 101, 40),
            np.linspace(36, 38, 40),
            "`x` seems to be in °C in b and in °F elsewhere (median 37 against 99).",
        ),
        (["u", "v"] * 20, ["u"] * 20 + ["w"] * 20, "`x` is 'w' in b only."),
    ],
    ids=["missing", "constant", "zeros", "unit", "shifted unit", "level"],
)
def test_what_does_not_fit_is_said(a, b, sentence):
    """Gaps, constants, zeros that may be gaps, other units and levels of one site are named with the site."""
    assert sentence in sentences(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0] * 19 + [1], [0] * 20),  # a rare value is missing by chance
        (["u"] * 19 + ["v"], ["u"] * 20),
        ([1.0, 2.0] * 10, [5.0] * 3),  # too few rows to say
        (np.linspace(0, 1, 40), np.linspace(0.5, 1.5, 40)),
    ],
    ids=["rare number", "rare level", "few rows", "overlap"],
)
def test_chance_is_no_finding(a, b):
    """What happens by chance, or in few rows, is not remarked."""
    assert sentences(a, b) == ()


@pytest.mark.parametrize("seed", range(5))
def test_rare_codes_are_in_one_site_by_chance(seed):
    """Of hundreds of random codes many are at one site only: none is remarked, a code of that site alone is."""
    generator = np.random.default_rng(seed)
    sites = generator.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=2000)
    codes = np.array([f"I{code}" for code in generator.zipf(1.3, size=2000) % 800], dtype=object)
    assert profile_columns(pd.DataFrame({"icd": codes}), sites).sentences == ()
    codes[np.flatnonzero(sites == "b")[:15]] = "local"
    assert profile_columns(pd.DataFrame({"icd": codes}), sites).sentences == ("`icd` is 'local' in b only.",)


def test_large_numbers_are_written_out():
    """1200 beds are not 1.2e+03."""
    profile = profile_columns(pd.DataFrame({"beds": [1200.0] * 20 + [400.0, 2500.0] * 10}), ["a"] * 20 + ["b"] * 20)
    assert [cell.text for cell in profile.cells[0]] == ["always 1200", "1450 (400 to 2500)"]
    assert profile.sentences == ("`beds` is always 1200 in a, but varies elsewhere.",)


def test_columns_of_a_wide_table_that_were_not_looked_at_are_counted():
    """A profile has the first columns of a wide table, and knows how many more there are."""
    profile = profile_columns(pd.DataFrame(np.zeros((20, 230))).add_prefix("gene "), ["a"] * 10 + ["b"] * 10)
    assert (len(profile.columns), profile.n_left_out) == (200, 30)


def test_texts_images_and_many_numbers_have_no_profile():
    """Only tables and small arrays have columns to look at."""
    assert profile_columns(["a", "b"], ["x", "y"]) is None
    assert profile_columns(np.zeros((2, 3, 3)), ["x", "y"]) is None
    assert profile_columns(np.zeros((2, 500)), ["x", "y"]) is None
    assert profile_columns(np.zeros((2, 2)), ["x", "y"], ["u", "v"]).columns == ("u", "v")


def test_all_sites_where_zero_stands_for_missing_are_in_one_sentence():
    """A site of zeros only does not hide another one with many zeros."""
    frame = pd.DataFrame({"chol": [200.0, 240.0] * 20 + [0.0] * 20 + [0.0, 210.0, 220.0, 230.0] * 10})
    assert profile_columns(frame, ["a"] * 40 + ["b"] * 20 + ["c"] * 40).sentences == (
        "`chol` is 0 in all rows in b, 25% of rows in c and hardly anywhere else: does 0 mean missing? If so, empty "
        "these cells.",
    )


def test_a_column_that_flags_missing_values_speaks_of_the_column_behind():
    """`ca is missing` says where `ca` is missing; that it is never 1 somewhere is nothing to remark."""
    flags = [0] * 40 + [1] * 39 + [0]
    frame = pd.DataFrame({"ca is missing": flags, "ca": [0.0, 1.0] * 20 + [0.0] * 40, "thal=missing": flags})
    profile = profile_columns(frame, ["a"] * 40 + ["b"] * 40)
    expected = "`{}` is missing in 98% of rows in b, but in 0% in a."
    assert profile.sentences == (expected.format("ca"), expected.format("thal"))
    assert profile.odd == ("ca", "thal=missing")
    assert profile.marked == ((1, 1), (2, 1))


def test_the_worst_comes_first():
    """A column in another unit is named before one with some gaps."""
    lengths = np.linspace(150.0, 190.0, 40)
    frame = pd.DataFrame(
        {"gaps": [1.0, 2.0] * 20 + [np.nan] * 16 + [1.0, 2.0] * 12, "height": [*lengths, *lengths / 2.54]}
    )
    first, second = profile_columns(frame, ["a"] * 40 + ["b"] * 40).sentences
    assert (first[:8], second[:6]) == ("`height`", "`gaps`")
