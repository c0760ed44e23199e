import numpy as np
import pandas as pd
import pytest

from holdfast.diagnosis.soundness import KEYS, Problem, check_table
from holdfast.diagnosis.words import REPAIRS, SENTENCES, check_line, headline, mend, say
from holdfast.exceptions import LabelsError

SITES = np.array(["Boston", "Chicago", "Denver", "Köln"])


def patients(n_rows=800, seed=0):
    """Return rows that were dealt at random to four sites: four columns tell the outcome, two do not."""
    generator = np.random.default_rng(seed)
    ill = generator.random(n_rows) < 0.35
    X = pd.DataFrame(
        {
            "age": (generator.normal(60, 10, n_rows) + 6 * ill).round(),
            "creatinine": np.exp(generator.normal(0.1 + 0.2 * ill, 0.25, n_rows)).round(1),
            "weight": generator.normal(78, 12, n_rows).round(1),
            "temperature": generator.normal(37 + 0.4 * ill, 0.6, n_rows).round(1),
            "smoker": np.where(generator.random(n_rows) < 0.3 + 0.2 * ill, "yes", "no"),
            "ward": generator.choice(["A", "B", "C"], n_rows),
        }
    )
    return X, np.where(ill, "yes", "no").astype(object), SITES[np.arange(n_rows) % 4]


def headlines(X, y, sites, **more):
    """Return key, column and sites of the problems that are a headline."""
    return [(p.key, p.column, p.sites) for p in check_table(X, y, sites, **more) if p.is_headline]


def leaks(X, y):
    """Return the columns that are found to be leaks where there is one site, with their keys."""
    return [(p.column, p.key) for p in check_table(X, y, np.zeros(len(y))) if p.key.startswith("leak")]


@pytest.mark.parametrize("seed", range(5))
def test_a_clean_table_has_no_problem(seed):
    """Patients dealt at random to sites raise no alarm, not even a note."""
    assert check_table(*patients(seed=seed)) == ()


@pytest.mark.parametrize(
    ("yes", "no", "key"),
    [("Ja", "Nein", "label_codes"), ("1", "0", "label_codes"), ("Yes", "No", "label_spelling")],
)
def test_labels_written_in_another_way_at_one_site(yes, no, key):
    """Other words, other codes and another case are named with the site and the values."""
    X, y, sites = patients()
    y = np.where(sites == "Köln", np.where(y == "yes", yes, no), y)
    problems = [p for p in check_table(X, y, sites) if p.is_headline]
    assert {p.key for p in problems} == {key}
    assert all(p.sites == ("Köln",) for p in problems)
    assert {label for p in problems for label in p.evidence["labels"]} == {yes, no}


def test_of_two_sites_with_other_labels_the_smaller_is_named():
    """One problem, not one for each site."""
    X, y, sites = patients()
    sites = np.where(np.arange(len(y)) < 500, "Boston", "Köln")
    y = np.where(sites == "Köln", np.where(y == "yes", "Ja", "Nein"), y)
    assert headlines(X, y, sites) == [("label_codes", "", ("Köln",))]


def test_one_class_only():
    """A site at which nobody is ill, though a third is elsewhere, is named; a site of three rows is not."""
    X, y, sites = patients()
    y = np.where(sites == "Köln", "no", y)
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.sites, problem.evidence["n_rows"]) == ("one_class", ("Köln",), 200)
    few = (sites != "Köln") | (np.arange(len(y)) < 12)
    assert headlines(X[few].reset_index(drop=True), y[few], sites[few]) == []


def test_exchanged_labels():
    """Where every column that tells the label tells the opposite, the labels are exchanged, also of 50 rows."""
    X, y, sites = patients()
    y = np.where(sites == "Köln", np.where(y == "yes", "no", "yes"), y)
    assert headlines(X, y, sites) == [("labels_exchanged", "", ("Köln",))]
    (problem,) = check_table(X, y, sites)
    assert problem.evidence["auroc"] == [pytest.approx(0.15, abs=0.08)]
    assert "In Köln the ranking is reversed (AUROC 0." in say(problem, "ill")


def test_a_column_that_turns_is_no_exchange_of_labels():
    """One strong column that tells the opposite at one site reverses the ranking there, but the others do not."""
    X, y, sites = patients()
    agrees = np.random.default_rng(1).random(len(y)) < np.where(sites == "Köln", 0.05, 0.95)
    X["scanner"] = np.where(agrees, y == "yes", y == "no").astype(float)
    assert headlines(X, y, sites) == []
    levels = np.where(X["scanner"] == 1, "high", np.where(np.arange(len(y)) % 3, "low", "middle"))
    assert headlines(X.assign(scanner=levels), y, sites) == []


@pytest.mark.parametrize(
    ("column", "key"),
    [
        (lambda y, g: np.where(y == "yes", 7.0, 3.0), "leak"),
        (lambda y, g: np.where(y == "yes", "dead", g.choice(["home", "rehab"], len(y))), "leak"),
        (lambda y, g: ((y == "yes") ^ (g.random(len(y)) < 0.015)).astype(float), "leak"),
        (lambda y, g: [f"{'D' if ill == 'yes' else 'H'}{g.integers(150)}" for ill in y], "leak"),
        (lambda y, g: np.where(y == "yes", 5, 1) + g.random(len(y)), "leak"),
        (lambda y, g: np.where(y == "yes", g.normal(size=len(y)), np.nan), "leak_by_gaps"),
        (
            lambda y, g: np.where((y == "yes") & (g.random(len(y)) < 0.4), "hospice", g.choice(["a", "b"], len(y))),
            "leak_by_level",
        ),
    ],
    ids=["copy", "levels", "98.5 %", "many codes", "limit", "gaps", "one level"],
)
def test_leaks(column, key):
    """What tells the label too well is named with the option that leaves it out: whole, nearly, by gaps, by a level."""
    X, y, sites = patients()
    X["late"] = column(y, np.random.default_rng(2))
    problems = [p for p in check_table(X, y, sites) if p.is_headline]
    assert [(p.key, p.column, p.options) for p in problems] == [(key, "late", ("--drop", "late"))]
    assert leaks(X, y) == [("late", key)]


def test_a_good_column_is_no_leak():
    """A column that is right for 92 % of the rows is good, not too good; nor is any among few or equal labels."""
    X, y, _ = patients()
    agrees = np.random.default_rng(3).random(len(y)) < 0.92
    assert leaks(X.assign(marker=np.where(agrees, y == "yes", y == "no").astype(float)), y) == []
    assert leaks(pd.DataFrame({"copy": np.arange(40) % 2}), np.arange(40) % 2) == []
    rare = (np.arange(400) % 40 == 0).astype(int)
    assert leaks(pd.DataFrame({"copy": rare}), rare) == []


def test_of_many_rows_a_sample_is_looked_at():
    """An almost perfect copy is found among 5,400,000 values; one that is right for 96 % is not."""
    y = np.arange(300_000) % 2
    wrong = np.arange(len(y)) % 5000 == 0
    X = pd.DataFrame({f"x{place}": np.arange(len(y)) * 7919 % 999 for place in range(16)})
    X = X.assign(copy=np.where(wrong, 1 - y, y), worse=np.where(np.arange(len(y)) % 100 < 4, 1 - y, y))
    (found,) = [p for p in check_table(X, y, np.zeros(len(y))) if p.key == "leak"]
    assert (found.column, round(found.evidence["share"], 4)) == ("copy", 0.9997)


@pytest.mark.parametrize(
    ("column", "convert", "unit", "usual", "factor"),
    [
        ("creatinine", lambda v: (v * 88.4).round(1), "µmol/L (creatinine)", "mg/dL", 88.4),
        ("weight", lambda v: (v * 2.2046).round(), "lb", "kg", 2.20462),
        ("weight", lambda v: v * 1000, "mg", "g", 1000.0),
        ("age", lambda v: v * 12, "months", "years", 12.0),
        ("age", lambda v: v / 10, "g/dL", "g/L", 0.1),
        ("temperature", lambda v: (v * 1.8 + 32).round(1), "°F", "°C", 1.8),
    ],
    ids=["creatinine", "pounds", "thousand", "months", "tenth", "Fahrenheit"],
)
def test_units(column, convert, unit, usual, factor):
    """The column, the site, the factor and the units that it suggests are named, also for columns of few values."""
    X, y, sites = patients()
    X.loc[sites == "Köln", column] = convert(X.loc[sites == "Köln", column])
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.sites) == ("unit", column, ("Köln",))
    assert (problem.evidence["unit"], problem.evidence["unit_elsewhere"]) == (unit, usual)
    assert problem.evidence["factor"] == pytest.approx(factor)


def test_a_factor_of_no_known_unit_and_two_sites():
    """A factor of 4.4 is told as such, and at every site that has it."""
    X, y, sites = patients()
    odd = np.isin(sites, ["Denver", "Köln"])
    X["weight"] = X["weight"].where(~odd, X["weight"] * 4.4)
    sites = np.where((sites == "Köln") & (np.arange(len(y)) < 600), "Zug", sites)  # three of six
    (problem,) = check_table(X, y, np.where(np.arange(len(y)) % 8 == 0, "Bern", sites))
    assert (problem.key, problem.sites) == ("factor", ("Denver", "Köln", "Zug"))
    assert problem.evidence["factor"] == pytest.approx(4.4, rel=0.05)


def test_other_patients_are_no_other_unit():
    """A site whose patients weigh a fifth more has no other unit."""
    X, y, sites = patients()
    X["weight"] = X["weight"].where(sites != "Köln", X["weight"] * 1.2)
    assert headlines(X, y, sites) == []


@pytest.mark.parametrize(("value", "everywhere"), [(999, False), (9999, True), (-9, True), (-1, False), (-99, False)])
def test_sentinels(value, everywhere):
    """Codes for missing values are named with their sites and the option that reads them as missing."""
    X, y, sites = patients()
    rows = (np.random.default_rng(1).random(len(y)) < 0.1) & ((sites == "Köln") | everywhere)
    X["age"] = X["age"].mask(rows, value)
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column) == ("sentinel", "age")
    assert problem.sites == (() if everywhere else ("Köln",))
    assert (problem.evidence["value"], problem.evidence["n_rows"]) == (value, rows.sum())
    assert problem.options == ("--missing", str(value))


def test_a_number_in_range_is_no_sentinel():
    """99 is an age, and 9 one of ten grades."""
    X, y, sites = patients()
    X["age"] = X["age"].mask(np.arange(len(y)) % 50 == 0, 99)
    X["grade"] = np.arange(len(y)) % 10
    assert [p for p in check_table(X, y, sites) if p.key == "sentinel"] == []


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda n, g: np.arange(n) + 5000, "growing"),
        (lambda n, g: g.permutation(2 * n)[:n], "distinct"),
        (lambda n, g: np.arange(n) // 4 + 1, "by site"),
        (lambda n, g: [f"Mr {number}" for number in g.permutation(n)], "texts"),
    ],
    ids=["growing", "distinct", "by site", "names"],
)
def test_identifiers(make, kind):
    """Numbers that grow or differ from row to row, start anew at every site, and names are identifiers."""
    X, y, sites = patients()
    X["key"] = make(len(y), np.random.default_rng(0))
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.evidence["kind"]) == ("identifier", "key", kind)
    assert problem.options == ("--drop", "key")


def test_an_identifier_that_repeats_is_known_by_its_name():
    """Two rows for each patient: the name of the column says what the numbers are; an age is no identifier."""
    X, y, sites = patients()
    numbers = np.random.default_rng(0).integers(10_000, 10_400, len(y))
    assert headlines(X.assign(patient_id=numbers), y, sites) == [("identifier", "patient_id", ())]
    assert headlines(X.assign(platelets=numbers), y, sites) == []


def test_copies_of_rows_are_counted_and_no_leak():
    """Every patient twice is said; that each copy tells its twin's label is no leak."""
    X, y, sites = patients()
    X["marker"] = np.random.default_rng(0).normal(size=len(y))
    twice = np.repeat(np.arange(len(y)), 2)
    (problem,) = check_table(X.iloc[twice].reset_index(drop=True), y[twice], sites[twice])
    assert problem.key == "copied_rows"
    assert problem.evidence == {"n_copies": 800, "share": 0.5, "n_across_sites": 0}
    moved = np.where(np.arange(1600) % 2, sites[twice], "Zug")
    (problem,) = [p for p in check_table(X.iloc[twice], y[twice], moved) if p.key == "copied_rows"]
    assert problem.evidence["n_across_sites"] == 800


def test_equal_rows_of_few_values_are_no_copies():
    """Four columns of three values have many equal rows by chance."""
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.integers(3, size=(400, 4)), columns=list("abcd"))
    assert [p.key for p in check_table(X, generator.integers(2, size=400), SITES[np.arange(400) % 4])] == []


@pytest.mark.parametrize("n_rows", [300, 1500])
def test_people_who_are_alike_in_all_columns_but_one_are_no_copies(n_rows):
    """A survey with answers from 1 to 5 that go together has many such pairs, and more that differ in two."""
    generator = np.random.default_rng(4)
    mood = generator.normal(size=(n_rows, 1)) + generator.normal(0, 0.5, (n_rows, 8))
    X = pd.DataFrame(np.digitize(mood, (-1.2, -0.3, 0.3, 1.2)), columns=list("abcdefgh"))
    assert check_table(X, generator.integers(2, size=n_rows), SITES[np.arange(n_rows) % 4]) == ()


def test_levels_written_otherwise_at_one_site():
    """M and F among male and female are said with site and words; wards of every site's own are not."""
    X, y, sites = patients()
    sex = np.array(["male", "female"])[np.arange(len(y)) // 4 % 2].astype(object)
    X = X.assign(ward=[f"{site} {number % 3}" for number, site in enumerate(sites)], sex=sex)
    assert not headlines(X, y, sites)
    X["sex"] = np.where(sites == "Köln", X["sex"].map({"male": "M", "female": "F"}), X["sex"])
    (found,) = [p for p in check_table(X, y, sites) if p.is_headline]
    assert (found.key, found.sites, found.options) == ("levels_written_otherwise", ("Köln",), ("--drop", "sex"))
    assert say(found) == "In Köln, `sex` is 'M', 'F'; at the other sites it is 'male', 'female'."


def test_a_column_twice_and_small_sites_are_notes():
    """They are worth a look, but no headline."""
    X, y, sites = patients()
    sites = np.where(np.arange(len(y)) < 5, "Zug", sites)
    problems = check_table(X.assign(years=X["age"]), y, sites)
    assert [(p.key, p.column, p.sites, p.severity) for p in problems] == [
        ("small_site", "", ("Zug",), "note"),
        ("copied_column", "years", (), "note"),
    ]


def test_a_column_has_one_headline():
    """A column of pounds with codes for missing values is told once; the worst problems come first."""
    X, y, sites = patients()
    X["weight"] = X["weight"].where(sites != "Köln", X["weight"] * 2.2046).mask(np.arange(len(y)) % 20 == 0, 9999)
    X["copy"] = (y == "yes").astype(float)
    assert [(key, column) for key, column, _ in headlines(X, y, sites)] == [("leak", "copy"), ("sentinel", "weight")]


def test_without_labels_only_columns_are_compared():
    """A page about a fitted classifier has the checks of columns."""
    X, _, sites = patients()
    X.loc[sites == "Köln", "weight"] *= 2.2046
    assert [p.key for p in check_table(X, None, sites)] == ["unit"]
    with pytest.raises(LabelsError, match="y has 3 labels for 800 rows"):
        check_table(X, [0, 1, 0], sites)


def test_the_headline_tells_two_problems_and_counts_the_others():
    """Problem and repair, each in a few sentences; every key has its sentence, every headline its repair."""
    leaks = [Problem("leak", "stop", name, (), {"share": 0.99}, ("--drop", name)) for name in "abc"]
    said, repairs = headline(leaks, "ill")
    assert said == (
        "`a` alone predicts `ill` in 99% of rows, which looks like a leak. `b` alone predicts `ill` in 99% of rows, "
        "which looks like a leak. 1 more problem is listed below."
    )
    assert repairs == (
        "Leave `a` out, unless it is known when you predict. Leave `b` out, unless it is known when you predict."
    )
    assert (headline([]), check_line([])) == (("", ""), "")
    assert sorted(SENTENCES) == sorted(KEYS)
    assert set(REPAIRS) < set(KEYS)


@pytest.mark.parametrize(
    ("problem", "sentence", "repair"),
    [
        (
            Problem(
                "unit",
                "repair",
                "creatinine",
                ("Köln",),
                {
                    "factor": 88.4,
                    "unit": "µmol/L",
                    "unit_elsewhere": "mg/dL",
                    "affine": False,
                    "median": 97,
                    "median_elsewhere": 1.1,
                },
            ),
            "`creatinine` is about 88.4 times as large in Köln as elsewhere (median 97 against 1.1), which fits µmol/L "
            "instead of mg/dL.",
            "Convert `creatinine` in Köln, or leave it out.",
        ),
        (
            Problem("sentinel", "repair", "age", ("Köln",), {"value": 999.0, "n_rows": 12, "low": 18.0, "high": 97.0}),
            "`age` is 999 in 12 rows in Köln, and 18 to 97 in all others: does it mean missing?",
            "Read 999 as missing.",
        ),
        (
            Problem("label_codes", "stop", "", ("Köln",), {"labels": ["Ja", "Nein"], "elsewhere": ["no", "yes"]}),
            "In Köln, `ill` is 'Ja', 'Nein'; at the other sites it is 'no', 'yes'.",
            "Write `ill` in the same way at every site before anything else.",
        ),
        (
            Problem("words_among_numbers", "stop", "lab", (), {"words": ["<0.7"]}, ("--missing", "<0.7")),
            "`lab` contains numbers, but '<0.7' turns them into categories, one for each value.",
            "Read '<0.7' as missing in `lab`. If '<0.7' should count as a value, write a number instead.",
        ),
    ],
    ids=lambda value: value.key if isinstance(value, Problem) else "",
)
def test_sentences(problem, sentence, repair):
    """Problems and repairs in plain words."""
    assert (say(problem, "ill"), mend(problem, "ill")) == (sentence, repair)


def near_patients(n_rows=400):
    """Return rows of two sites with columns of many values."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=n_rows)
    names = ("age", "weight", "sodium", "glucose", "height", "pulse")
    X = pd.DataFrame({name: generator.normal(50, 10, n_rows).round(1) + 4 * y for name in names})
    return X, y, np.array(["a", "b"])[np.arange(n_rows) % 2]


def test_rows_that_differ_in_one_column_are_near_copies():
    """A tenth of the rows again, with another pulse: said with their number; independent rows are not."""
    X, y, sites = near_patients()
    assert check_table(X, y, sites) == ()
    again = X[:40].assign(pulse=X["pulse"][:40] + 3)
    (found,) = check_table(pd.concat([X, again], ignore_index=True), np.r_[y, y[:40]], np.r_[sites, sites[:40]])
    assert (found.key, found.severity, found.evidence["n_rows"]) == ("near_copied_rows", "repair", 80)
    assert say(found) == "80 rows (18%) equal another row in all columns but one: are people counted twice?"


def test_a_column_in_two_units_is_a_note():
    """Pounds beside kilograms say the same; the second one is named."""
    X, y, sites = near_patients()
    (found,) = check_table(X.assign(pounds=(X["weight"] * 2.2046).round()), y, sites)
    assert (found.key, found.severity, found.options) == ("near_copied_column", "note", ("--drop", "pounds"))
    assert say(found) == "`pounds` is almost a copy of `weight`."


def test_labels_exchanged_at_a_small_site_are_found_and_a_turned_column_is_not():
    """With 60 rows at the site; where only one column is turned there, the labels are not to blame."""
    X, y, _ = near_patients(360)
    sites = np.array(list("abcdef"))[np.arange(360) % 6]
    exchanged = np.where(sites == "f", 1 - y, y)
    keys = [(p.key, p.sites) for p in check_table(X, exchanged, sites) if p.is_headline]
    assert keys == [("labels_exchanged", ("f",))]
    turned = X.assign(age=np.where(sites == "f", 100 - X["age"], X["age"]))
    assert [p.key for p in check_table(turned, y, sites) if p.is_headline] == []


def kinds(n_rows=900, seed=0):
    """Return rows of two sites of different kinds: all sizes at one of them are other ones, as of infants."""
    generator = np.random.default_rng(seed)
    infants = np.arange(n_rows) % 3 == 0
    length = np.where(infants, generator.normal(0.43, 0.11, n_rows), generator.normal(0.58, 0.09, n_rows)).clip(0.15)
    whole = 4.3 * length**3 * np.exp(generator.normal(0, 0.12, n_rows))
    X = pd.DataFrame({"length": length, "diameter": 0.8 * length + generator.normal(0, 0.01, n_rows), "whole": whole})
    X["shucked"], X["shell"] = (share * whole * np.exp(generator.normal(0, 0.1, n_rows)) for share in (0.43, 0.29))
    return X, generator.integers(2, size=n_rows), np.where(infants, "infants", "adults")


@pytest.mark.parametrize("seed", range(3))
def test_a_site_of_another_kind_has_no_other_unit(seed):
    """Where most columns differ at a site, its rows are others: a factor near that of a unit is a coincidence."""
    X, y, sites = kinds(seed=seed)
    assert headlines(X, y, sites) == []
    assert headlines(X, y, np.where(sites == "infants", "adults", "infants")) == []


@pytest.mark.parametrize("spread", [15, 4])
def test_two_columns_that_are_exchanged_at_one_site(spread):
    """They are named together, and not taken for two wrong units; their spreads may differ."""
    X, y, sites = patients()
    X["pressure"] = np.random.default_rng(3).normal(132, spread, len(y)).round()
    odd = sites == "Köln"
    X.loc[odd, ["age", "pressure"]] = X.loc[odd, ["pressure", "age"]].to_numpy()
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.sites) == ("columns_exchanged", "age", ("Köln",))
    assert (
        say(problem) == "`age` and `pressure` look exchanged in Köln: each has the values that the other has elsewhere."
    )
    assert mend(problem) == "Exchange `age` and `pressure` in Köln, or leave both out."
    assert problem.options == ("--drop", "age", "--drop", "pressure")


def test_a_unit_in_a_part_of_the_rows_of_a_site():
    """The site, the factor and the share of its rows are said; no option of a command can convert a part."""
    X, y, sites = patients()
    part = (sites == "Köln") & (np.random.default_rng(1).random(len(y)) < 0.4)
    X["creatinine"] = X["creatinine"].where(~part, (X["creatinine"] * 88.4).round())
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.sites) == ("unit", "creatinine", ("Köln",))
    assert problem.evidence["factor"] == pytest.approx(88.4)
    assert problem.evidence["share"] == pytest.approx(part[sites == "Köln"].mean())
    assert problem.options == ("--drop", "creatinine")
    assert "times as large in 37" in say(problem) and "% of rows in Köln as elsewhere" in say(problem)


def test_a_few_numbers_far_beyond_all_others():
    """Five values a million times too large are said with their site and range; long tails are not."""
    X, y, sites = patients()
    rows = np.flatnonzero(sites == "Köln")[:5]
    X.loc[rows, "creatinine"] *= 1e6
    X["costs"] = np.exp(np.random.default_rng(2).normal(6, 1.5, len(y))).round()
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.sites) == ("far_values", "creatinine", ("Köln",))
    assert problem.evidence["n_rows"] == 5
    assert say(problem).startswith("`creatinine` is 1000000 to ") and say(problem).endswith(
        "in all others: are they mistakes?"
    )
    assert mend(problem) == "Correct these numbers of `creatinine` in the table, or empty their cells."


def test_one_row_with_a_code_of_four_digits_is_a_sentinel():
    """9999 among weights of 40 to 120 needs no second row."""
    X, y, sites = patients()
    X.loc[7, "weight"] = 9999
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.evidence["n_rows"]) == ("sentinel", "weight", 1)


def test_one_site_under_several_spellings():
    """Case, blanks and accents that are written in two ways split a site."""
    X, y, sites = patients()
    written = np.where(np.arange(len(y)) % 8 == 3, "köln ", sites).astype(object)
    (problem,) = check_table(X, y, written)
    assert (problem.key, problem.sites) == ("site_spelling", ("Köln", "köln "))
    assert say(problem) == "'Köln', 'köln ' look like one site, but count as different ones."
    composed = np.where(np.arange(len(y)) % 8 == 3, "Ko\u0308ln", sites)
    assert [p.key for p in check_table(X, y, composed)] == ["site_spelling"]


def test_a_column_that_tells_the_site_is_one_note():
    """Wards that each belong to one site are said in one sentence."""
    X, y, sites = patients()
    X["ward"] = [f"{site[0]}{number % 3}" for number, site in enumerate(sites)]
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.severity) == ("levels_of_sites", "ward", "note")
    assert (
        say(problem)
        == "`ward` has different values at every site, so it identifies the site and cannot help at a new one."
    )


def test_a_number_that_is_frequent_at_one_site_only():
    """A limit of measurement at one site is a note."""
    X, y, sites = patients()
    X["weight"] = X["weight"].where(sites != "Köln", X["weight"].clip(78))
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.sites) == ("frequent_value", "weight", ("Köln",))
    assert say(problem).endswith("% of rows in Köln and hardly anywhere else: is it a limit of measurement?")


@pytest.mark.parametrize(
    ("column", "convert", "says"),
    [
        ("weight", lambda v: -v, "check its unit"),
        ("weight", lambda v: ((v - 78) / 12).round(2), "check its unit"),
        ("age", lambda v: 2020 - v, "check its unit"),
        ("temperature", lambda v: v + 273.15, "seems to be in K in Köln and in °C elsewhere"),
    ],
    ids=["sign", "z scores", "year of birth", "kelvin"],
)
def test_a_column_with_other_numbers_at_one_site(column, convert, says):
    """Numbers that no row of another site has are named, whatever was done to them."""
    X, y, sites = patients()
    X[column] = X[column].where(sites != "Köln", convert(X[column]))
    (problem,) = [p for p in check_table(X, y, sites) if p.is_headline]
    assert (problem.column, problem.sites) == (column, ("Köln",))
    assert says in say(problem)


def test_several_columns_with_other_numbers_are_other_people():
    """A site of small children: of age, weight and steps none is called a mistake."""
    X, y, sites = patients()
    generator = np.random.default_rng(3)
    X[[f"score {k}" for k in range(6)]] = generator.normal(size=(len(y), 6))
    X["steps"] = generator.normal(6000, 500, len(y)).round()
    for column, middle, width in (("age", 2, 0.5), ("weight", 12, 1.5), ("steps", 300, 50)):
        X[column] = X[column].where(sites != "Köln", generator.normal(middle, width, len(y)))
    found = check_table(X, y, sites)
    assert {p.column: p.severity for p in found} == dict.fromkeys(("age", "weight", "steps"), "note")


def test_zero_far_below_all_others_means_missing():
    """A temperature of 0 at one site is a gap; counts, amounts that begin near 0 and zeros at all sites need not be."""
    X, y, sites = patients()
    generator = np.random.default_rng(4)
    X["visits"] = np.where(generator.random(len(y)) < 0.6, 0, generator.poisson(4, len(y)))
    X["pack years"] = np.where(generator.random(len(y)) < 0.5, 0, generator.gamma(2, 12, len(y)).round(1))
    rows = generator.random(len(y)) < 0.08
    (problem,) = check_table(X.assign(temperature=X["temperature"].mask(rows, 0)), y, sites)
    assert (problem.key, problem.severity) == ("sentinel", "note")
    (problem,) = check_table(X.assign(temperature=X["temperature"].mask(rows, -500)), y, sites)
    assert (problem.key, problem.severity) == ("sentinel", "repair")
    X["temperature"] = X["temperature"].mask(rows & (sites == "Köln"), 0)
    (problem,) = check_table(X, y, sites)
    assert (problem.key, problem.column, problem.options) == ("sentinel", "temperature", ("--drop", "temperature"))
    assert mend(problem) == "Empty the cells of `temperature` that are 0, or leave it out."


def test_a_code_with_decimals_is_a_sentinel():
    """999.9 and its option have all digits."""
    X, y, sites = patients()
    X["weight"] = X["weight"].mask(np.arange(len(y)) % 40 == 0, 999.9)
    (problem,) = check_table(X, y, sites)
    assert problem.options == ("--missing", "999.9")
    assert "`weight` is 999.9 in 20 rows" in say(problem)


def test_codes_that_begin_at_another_number_at_one_site():
    """0 and 1 elsewhere, 1 and 2 in Köln: the conversion is an option; other shares of the same codes are none."""
    X, y, sites = patients()
    X["sex"] = (np.random.default_rng(5).random(len(y)) < 0.45).astype(int)
    assert headlines(X, y, sites) == []
    X["sex"] += sites == "Köln"
    (problem,) = [p for p in check_table(X, y, sites) if p.is_headline]
    assert (problem.key, problem.column, problem.options) == ("codes_moved", "sex", ("--scale", "sex@Köln=1-1"))
    assert say(problem) == "`sex` is 1, 2 in Köln and 0, 1 elsewhere: are the codes the same?"


def test_a_label_that_means_missing():
    """A third label '?' is a gap; with two labels it is one of them."""
    X, y, sites = patients()
    assert headlines(X, np.where(y == "no", "?", y), sites) == []
    y = np.where(np.arange(len(y)) % 25 == 0, "?", y)
    (problem,) = [p for p in check_table(X, y, sites) if p.is_headline]
    assert (problem.key, problem.options) == ("label_gap", ("--missing", "?", "--missing-labels", "drop"))
    assert say(problem, "ill") == "`ill` is '?' in 32 rows: does it mean missing?"


@pytest.mark.parametrize(("one", "other"), [("Köln", "KÃ¶ln"), ("St. Mary", "St Mary")])
def test_one_site_with_garbled_letters_or_points(one, other):
    """UTF-8 read as Latin-1, and points between words, split a site."""
    X, y, sites = patients()
    written = np.where(sites == "Köln", np.where(np.arange(len(y)) % 8 == 3, one, other), sites)
    assert [(p.key, p.sites) for p in check_table(X, y, written)] == [("site_spelling", tuple(sorted((one, other))))]
