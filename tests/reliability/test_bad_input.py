"""Whatever table, file or array is handed over: an answer without NaN or an error of ours, and in time."""

import contextlib
import datetime
import decimal
import signal
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from holdfast import ERMClassifier, PIClassifier
from holdfast.environments import merge_small_environments, split_environments
from holdfast.exceptions import EnvironmentsError, HoldfastError
from holdfast.tables.classifier import TableClassifier
from holdfast.tables.roles import TableOptions, read_rows

LONGEST = 60  # seconds of processor time that any of these inputs may take


PART = 2_500  # examples of one slow test


def often(n_short, n_long, *strategies):
    """Make a property run `n_short` times by default, and `n_long` times in parts of their own as slow tests."""
    parts = [(PART, part) for part in range(1, n_long // PART + 1)]
    long = [pytest.param(*part, marks=pytest.mark.slow, id=f"long-{part[1]}") for part in parts]

    def decorate(check):
        @pytest.mark.parametrize(("n_examples", "part"), [pytest.param(n_short, 0, id="short"), *long])
        def run(n_examples, part):
            options = settings(
                max_examples=n_examples, deadline=None, database=None, suppress_health_check=list(HealthCheck),
                phases=(Phase.explicit, Phase.generate, Phase.shrink),
            )  # fmt: skip
            seed(part)(options(given(*strategies)(check)))()

        run.__doc__, run.__name__ = check.__doc__, check.__name__
        return run

    return decorate


@contextlib.contextmanager
def only_ours():
    """Let errors of ours pass, if they are also ValueError or TypeError; whatever takes too long is an error."""

    def too_long(*_):
        raise TimeoutError(f"it takes more than {LONGEST} s")

    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except HoldfastError as problem:
        assert isinstance(problem, ValueError | TypeError)
        assert str(problem)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# -- environment labels ------------------------------------------------------------------------------------------------

ODD = st.sampled_from([
    None, np.nan, pd.NA, pd.NaT, np.inf, -np.inf, True, False, 0, 1, -1, 1.0, 0.1, 2**63, -(2**63), 2**64,
    10**30, "", "1",
    "nan", "é", "\u202e", "\U0001f600", "a\nb", "\x00", b"bytes", (1, 2), datetime.date(2026, 1, 1),
    datetime.datetime(1, 1, 1), np.datetime64("NaT"), np.datetime64("2026-01-01"), decimal.Decimal("0.1"),
    decimal.Decimal("NaN"), 1 + 2j, np.float32(1), np.int8(1), np.str_("a"), [], {}, {1}, object,
])  # fmt: skip
PLAIN = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(0, 3),
    st.text(max_size=3),
    st.sampled_from("ab"),
    st.booleans(),
    st.floats(),
)
COLUMNS = st.one_of(
    st.lists(PLAIN, max_size=12), st.lists(ODD, max_size=8), st.lists(st.one_of(ODD, PLAIN), max_size=8)
)
SHAPES = st.sampled_from([list, tuple, pd.Series, pd.Categorical, pd.Index, np.array, np.asarray, set, iter, str])


def shaped(shape, values):
    """Return the values in a container; as a list where it takes no such values."""
    try:
        return shape(values)
    except Exception:
        return values


@often(200, 65_000, COLUMNS, SHAPES, st.integers(-1, 1))
def test_environment_labels(values, shape, off):
    """Labels of any kind become environments that hold every row once, under names that differ."""
    with only_ours():
        n_rows = max(len(values) + off * (len(values) % 7 == 0), 0)
        found = split_environments(shaped(shape, values), n_rows)
        assert np.array_equal(np.sort(np.concatenate([e.rows for e in found])), np.arange(n_rows))
        assert len({e.name for e in found}) == len(found)
        merge_small_environments(found, 2)


@often(40, 10_000, st.lists(COLUMNS, min_size=1, max_size=3), st.integers(0, 3))
def test_several_columns_of_environment_labels(columns, kind):
    """Columns are crossed, whatever holds them."""
    with only_ours():
        n_rows = min(map(len, columns))
        columns = [column[:n_rows] for column in columns]
        table = list(zip(*columns, strict=True))
        if kind == 1:
            table = shaped(pd.DataFrame, {str(i): column for i, column in enumerate(columns)})
        elif kind == 2:
            table = shaped(np.array, table)
        found = split_environments(table, n_rows)
        assert sum(map(len, found)) == n_rows


@pytest.mark.parametrize("n_rows", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_as_many_environments_as_rows(n_rows):
    """A million environments of one row each are merged into one, with a warning, in seconds."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, 1)), rng.integers(0, 2, n_rows)
    with only_ours():
        model = PIClassifier().fit(X, y, environments=np.arange(n_rows))
        assert list(model.environments_) != []
        assert np.isfinite(model.predict_proba(X[:10])).all()
    with only_ours(), pytest.raises(EnvironmentsError, match="environments"):
        PIClassifier(min_group_size=1).fit(X, y, environments=np.arange(n_rows))


# -- arrays ------------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1.0, -0.0, 1e-300, 1e16, -1e30, 1e150, 1e308, np.nan, np.inf, -np.inf])
)


@st.composite
def training_rows(draw):
    """Rows, labels and environments of a few numbers, mostly sane."""
    n_rows = draw(st.integers(0, 24))
    n_columns = draw(st.integers(0, 3))
    sane = draw(st.booleans())
    cells = st.floats(-3, 3) if sane else NUMBERS
    X = np.array(draw(st.lists(cells, min_size=n_rows * n_columns, max_size=n_rows * n_columns)))
    with np.errstate(over="ignore"):
        X = X.reshape(n_rows, n_columns).astype(draw(st.sampled_from([float, np.float32, object])))
    labels = draw(st.sampled_from([("a", "b"), (0, 1), (False, True), ("x", "y", "z"), (0,), (0, None), (0.5, 1.5)]))
    y = np.array([labels[draw(st.integers(0, len(labels) - 1))] for _ in range(n_rows)])
    n_environments = draw(st.integers(1, 4))
    environments = [draw(st.integers(0, n_environments)) for _ in range(n_rows)]
    return X, y, draw(st.sampled_from([environments, None, [str(e) for e in environments], environments[1:]]))


@often(25, 2_500, training_rows(), st.sampled_from(["pi", "erm", "soft", "weights"]))
def test_arrays(rows, method):
    """A fit on any array ends with probabilities that are numbers and sum to one, and labels that it has seen."""
    X, y, environments = rows
    inner = LogisticRegression(max_iter=20)
    with only_ours():
        if method == "erm":
            model = ERMClassifier(inner).fit(X, y, environments=environments)
        else:
            extra = {"sample_weight": np.arange(len(y)) % 3} if method == "weights" else {}
            model = PIClassifier(inner, min_group_size=1 + len(y) % 3, halves="soft" if method == "soft" else "hard")
            model.fit(X, y, environments=environments, **extra)
        probabilities = model.predict_proba(X)
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
        assert set(model.predict(X)) <= set(y)


# -- files -------------------------------------------------------------------------------------------------------------

CELLS = st.one_of(
    st.sampled_from(["0", "1", "a", "b"]),
    st.sampled_from(["0", "1", "a", "b", "", "NA", "NaN", "inf", "-inf", "1e999", "-1e308",
        "99999999999999999999", "-0", "1,2"]),
    st.sampled_from(["2026-01-01", "2026-01-01T00:00:00+09:00", "0001-01-01", "9999-12-31", "2026-13-40",
        "12:30", "true"]),
    st.sampled_from(['"', '""', "'", ";", "\t", " ", "#", "\\", "é", "\ufeff", "\U0001f600", "\u202e",
        "x" * 300, "0x1F", "1_000"]),
    st.text(max_size=4),
)  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(["y", "site", "x", "z", "X", "é", "\U0001f600", "", " ", "y ", "unnamed_1", "x (days)",
        "x (month)", "0"]),
    st.text(max_size=3),
)  # fmt: skip
ENCODINGS = st.sampled_from(["utf-8"] * 6 + ["utf-8-sig", "latin-1", "utf-16", "utf-32", "shift_jis", "cp1252"])


@st.composite
def csv_bytes(draw):
    """The bytes of a CSV file: mostly a table with a label and an environment column, then harmed in some way."""
    extra = draw(st.lists(NAMES, max_size=3))
    header = ["y", "site", *extra]
    n_rows = draw(st.integers(0, 8))
    lines = [header]
    for number in range(n_rows):
        lines.append(
            [str(number % 2), "ab"[number // 2 % 2], *draw(st.lists(CELLS, min_size=len(extra), max_size=len(extra)))]
        )
    for _ in range(draw(st.integers(0, 2))):  # cells and lines that do not belong
        line = lines[draw(st.integers(0, len(lines) - 1))]
        place = draw(st.integers(0, len(line)))
        line[place : place + draw(st.integers(0, 1))] = draw(st.lists(CELLS, max_size=1))
    quoted = draw(st.booleans())
    text = draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(
        ",".join('"' + cell.replace('"', '""') + '"' if quoted else cell for cell in line) for line in lines
    )
    data = text.encode(draw(ENCODINGS), "replace")
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):  # a byte that does not belong
        place = draw(st.integers(0, len(data)))
        data = data[:place] + draw(st.binary(max_size=2)) + data[place + draw(st.integers(0, 1)) :]
    return data


@pytest.fixture(scope="module", autouse=True)
def folder(memory_folder_of_module):
    """Give the properties a folder in memory."""
    global FOLDER
    FOLDER = memory_folder_of_module


def read_and_fit(path, environment="site", *, fit):
    """Read a table as `holdfast fit` does; fit on it, and predict it."""
    period = "quarter" if len(path.read_bytes()) % 2 else None
    options = {"label": "y", "environment": environment, "environment_by": period}
    training = read_rows(path, TableOptions(**options))
    assert len(training.features) == len(training.y) == len(training.environments)
    numbers = training.features.select_dtypes("number").to_numpy()
    assert not np.isinf(numbers).any()
    if fit:
        fitted = TableClassifier(**options, estimator=LogisticRegression(max_iter=20), method="pi").fit(training)
        check_predictions(fitted, path, len(training.y))


def check_predictions(fitted, path, n_rows=None):
    """Predict a file; probabilities are numbers, labels are known, every row has its answer."""
    parts = list(fitted.predict_chunks(path))
    labels = np.concatenate([part.labels for part in parts]) if parts else np.array([])
    assert n_rows is None or len(labels) == n_rows
    assert set(labels) <= set(fitted.classes_)
    for part in parts:
        assert np.isfinite(part.probabilities).all()
    return labels


@often(80, 15_000, csv_bytes(), st.integers(0, 15))
def test_csv_files(data, number):
    """Any bytes under the name of a CSV file are read, and sometimes fitted, or refused."""
    path = FOLDER / "table.csv"
    path.write_bytes(data)
    with only_ours():
        read_and_fit(path, fit=number == 0)


ARROW = [
    (pa.int8(), [0, 1, -128]), (pa.int64(), [0, 1, 2**63 - 1, -(2**63)]), (pa.uint64(), [0, 1, 2**64 - 1]),
    (pa.float16(), [np.float16(0), np.float16("inf")]), (pa.float32(), [0.0, 1.0, np.nan, np.inf]),
    (pa.float64(), [0.0, 1.0, 1e308, np.nan, -np.inf]), (pa.bool_(), [True, False]), (pa.string(), ["a", "b",
    "", "é", "\x00"]),
    (pa.large_string(), ["a", "b"]), (pa.binary(), [b"a", b"\xff"]), (pa.date32(), [datetime.date(1, 1, 1),
    datetime.date(2026, 1, 1)]),
    (pa.date64(), [datetime.date(9999, 12, 31), datetime.date(2026, 1, 1)]),
    (pa.timestamp("s"), [0, 2**55, -(2**55)]), (pa.timestamp("us"), [datetime.datetime(1, 1, 1),
    datetime.datetime(9999, 12, 31)]),
    (pa.timestamp("ns", tz="Asia/Tokyo"), [0, 2**62]), (pa.time32("s"), [datetime.time(1, 2)]),
    (pa.duration("s"), [0, 2**60]),
    (pa.decimal128(38, 2), [decimal.Decimal("0.01"), decimal.Decimal(10) ** 30]), (pa.decimal256(70, 0),
    [decimal.Decimal(10) ** 60]),
    (pa.list_(pa.int8()), [[1], []]), (pa.struct([("a", pa.int8())]), [{"a": 1}]), (pa.map_(pa.string(),
    pa.int8()), [[("a", 1)]]),
    (pa.null(), [None]), (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]), (pa.list_(pa.float32(), 2), [[1.0, 2.0]]),
]  # fmt: skip


@st.composite
def parquet_tables(draw):
    """A table of any column types, with a label and an environment, either of which may be odd."""
    n_rows = draw(st.integers(0, 12))

    def column(kinds):
        kind, values = draw(st.sampled_from(kinds))
        cells = draw(st.lists(st.sampled_from([*values, None, values[0]]), min_size=n_rows, max_size=n_rows))
        return pa.array([None if draw(st.booleans()) and cell is None else cell for cell in cells], type=kind)

    plain = pa.array([i % 2 for i in range(n_rows)]), pa.array(["ab"[i // 2 % 2] for i in range(n_rows)])
    columns = [
        ("y", plain[0] if draw(st.integers(0, 3)) else column(ARROW)),
        ("site", plain[1] if draw(st.integers(0, 3)) else column(ARROW)),
    ]
    columns += [(draw(NAMES), column(ARROW)) for _ in range(draw(st.integers(0, 3)))]
    return pa.Table.from_arrays([values for _, values in columns], names=[name for name, _ in columns])


@often(80, 5_000, parquet_tables(), st.integers(0, 15), st.integers(0, 30), st.data())
def test_parquet_files(table, number, harm, data):
    """Any Parquet file, whole or harmed, is read, and sometimes fitted, or refused."""
    path = FOLDER / "table.parquet"
    try:
        pyarrow.parquet.write_table(table, path)
    except pa.ArrowException:  # it cannot be written
        return
    if harm == 0:
        content = bytearray(path.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
    with only_ours():
        read_and_fit(path, fit=number == 0)


# -- predicting --------------------------------------------------------------------------------------------------------

FITTED = {}


def fitted():
    """Return a classifier of a table with a column of each kind, and that table; fitted once."""
    if not FITTED:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({
            "number": rng.normal(size=80), "flag": rng.integers(0, 2, 80).astype(bool),
            "level": rng.choice(list("abc"), 80),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, 80), unit="D"),
            "site": np.repeat(["p", "q"], 40), "y": rng.choice(["no", "yes"], 80),
        })  # fmt: skip
        frame.to_csv(FOLDER / "fit.csv", index=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inner = LogisticRegression(max_iter=20)
            classifier = TableClassifier(label="y", environment="site", estimator=inner, method="pi")
            FITTED["model"] = classifier.fit(FOLDER / "fit.csv")
        FITTED["frame"] = frame.head(6)
    return FITTED["model"], FITTED["frame"]


REPLACEMENTS = [
    ["a"] * 6, [1.5] * 6, [np.nan] * 6, [np.inf, 1, 2, 3, 4, 5], [1e300] * 6, [True] * 6, [""] * 6,
    [2**63] * 6, [None, *"abcde"],
    ["2026-01-01"] * 6, ["2026-01-01", "x", "", "0001-01-01", "9999-12-31", "2026"], [datetime.datetime(2026,
    1, 1)] * 6,
    ["é", "\U0001f600", "a", "b", "c", "\x00"], [10**25] * 6, [-0.0] * 6, [[1]] * 6, [1 + 0j] * 6,
    [decimal.Decimal("1.5")] * 6,
]  # fmt: skip


@often(60, 2_500, st.permutations(["number", "flag", "level", "day", "site", "y"]), st.data())
def test_predicting_other_tables(order, data):
    """Columns in another order or among others change nothing; missing or odd ones are named, or answered."""
    model, frame = fitted()
    changed = frame[order]
    harmed = data.draw(
        st.sampled_from(["no", "extra", "missing", "renamed", "replaced", "replaced", "replaced", "empty"])
    )
    if harmed == "extra":
        name = data.draw(NAMES.filter(lambda name: name not in order))
        changed = changed.assign(**{name: data.draw(st.sampled_from(REPLACEMENTS))})
    elif harmed == "missing":
        changed = changed.drop(columns=data.draw(st.sampled_from(order)))
    elif harmed == "renamed":
        changed = changed.rename(columns={data.draw(st.sampled_from(order)): data.draw(NAMES)})
    elif harmed == "replaced":
        changed = changed.assign(**{data.draw(st.sampled_from(order)): data.draw(st.sampled_from(REPLACEMENTS))})
    elif harmed == "empty":
        changed = changed.head(0)
    path = FOLDER / data.draw(st.sampled_from(["new.csv", "new.parquet", "new.tsv"]))
    try:
        if path.suffix == ".parquet":
            changed.to_parquet(path)
        else:
            changed.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    except Exception:  # pandas cannot write such a table
        return
    with only_ours():
        labels = check_predictions(model, path)
        assert len(labels) == len(changed)
        if harmed in ("no", "extra"):
            if "expected" not in FITTED:
                frame.to_csv(FOLDER / "plain.csv", index=False)
                FITTED["expected"] = list(check_predictions(model, FOLDER / "plain.csv"))
            assert list(labels) == FITTED["expected"]
