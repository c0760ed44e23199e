"""Tables of one's own, and Adult."""

import gzip

import pytest

from holdfast.datasets import load_dataset
from holdfast.datasets.synthetic import make_files
from holdfast.exceptions import DatasetError, ParameterError


@pytest.fixture
def folder(tmp_path):
    """Return a folder with table.csv and table.toml."""
    return make_files("table", tmp_path)


def describe(folder, text):
    """Replace the description."""
    (folder / "table.toml").write_text(text)


GOOD = 'file = "table.csv"\nlabel = "diagnosis"\nenvironment = "site"\n'


def test_a_description_says_what_the_columns_are(folder):
    """Label, environment and attributes are no inputs; rows are dealt by label and environment."""
    data = load_dataset("table", folder=folder)
    assert list(data.train.X.columns) == ["marker", "dose"]
    assert data.classes == ("ill", "well")
    assert sorted(set(data.train.environments)) == ["A", "B"]
    assert (len(data.train), len(data.validation["train"]), len(data.test)) == (300, 120, 180)
    assert data.train.attributes["scanner"].dtype.kind == "i"
    assert load_dataset("table", folder=folder).train.X.equals(data.train.X)
    assert not load_dataset("table", folder=folder, seed=1).train.X.equals(data.train.X)


def test_environments_can_be_kept_for_the_test(folder):
    """With test_environments the test split is those environments, and nothing else."""
    describe(folder, GOOD + 'drop = ["dose"]\ntest_environments = ["B"]\n')
    data = load_dataset("table", folder=folder)
    assert set(data.test.environments) == {"B"}
    assert set(data.train.environments) == {"A"}
    assert len(data.test) == 300
    assert list(data.train.X.columns) == ["marker", "scanner"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + 'lable = "x"\n', "table.toml has an unknown key 'lable'. Did you mean 'label'\\?"),
        ('file = "table.csv"\nlabel = "diagnosis"\n', "table.toml lacks the key 'environment'"),
        (
            GOOD + "drop = 3\n",
            "table.toml has a value of 'drop' that cannot be used: Input should be a valid list. Got 3.",
        ),
        (GOOD.replace("site", "sight"), "table.csv has no column 'sight'. Did you mean 'site'\\?"),
        (GOOD + 'test_environments = ["C"]\n', "table.csv has no environment 'C'"),
        (
            GOOD + 'test_environments = ["A", "B"]\n',
            "table.csv: test_environments names all environments .'A', 'B'.*leaves none for training. Leave one out",
        ),
        ("file = ", "table.toml cannot be read as TOML"),
    ],
)
def test_mistakes_in_a_description_are_named(folder, text, message):
    """Each mistake is one error that names the file and what was meant."""
    describe(folder, text)
    with pytest.raises(DatasetError, match=message):
        load_dataset("table", folder=folder)


def test_a_missing_description_is_named(tmp_path):
    """Without a TOML the error says what to write."""
    with pytest.raises(DatasetError, match="does not exist. Write a TOML with file, label and environment"):
        load_dataset("table", folder=tmp_path)


def test_adult_takes_any_column_as_environment(tmp_path):
    """The official test file is the test split; question marks are missing; gzip is read like plain text."""
    folder = make_files("adult", tmp_path)
    data = load_dataset("adult", folder=folder)
    assert (len(data.train), len(data.validation["train"]), len(data.test)) == (482, 118, 300)
    assert data.classes == ("<=50K", ">50K")
    assert set(data.train.environments) == {"Female", "Male"}
    assert "sex" not in data.train.X
    assert "fnlwgt" not in data.train.X
    assert "unknown" in set(data.test.attributes["workclass"])
    packed = gzip.compress((folder / "adult.data").read_bytes())
    (folder / "adult.data").unlink()
    (folder / "adult.data.gz").write_bytes(packed)
    other = load_dataset("adult", folder=folder, environment="workclass", attributes=("sex",))
    assert set(other.train.environments) == {"Private", "State-gov", "unknown"}
    with pytest.raises(ParameterError, match="'environment' option must be one of"):
        load_dataset("adult", folder=folder, environment="gender")


def test_broken_adult_files_are_named(tmp_path):
    """A short line and a word in place of a number name the file, and the line where there is one."""
    folder = make_files("adult", tmp_path)
    lines = (folder / "adult.data").read_text().splitlines()
    (folder / "adult.data").write_text("\n".join([lines[0], "39, Private", *lines[1:]]))
    with pytest.raises(DatasetError, match="adult.data, line 2: 2 values where 15 are expected"):
        load_dataset("adult", folder=folder)
    (folder / "adult.data").write_text("\n".join(["old" + lines[0][2:], *lines[1:]]))
    with pytest.raises(DatasetError, match="adult.data, line 1: age must be a number. Got 'old'. Correct the line"):
        load_dataset("adult", folder=folder)
    (folder / "adult.data").write_text("\n".join([*lines[:4], lines[4].replace("50K", "50k")]))
    with pytest.raises(DatasetError, match="adult.data, line 5: the last value must be <=50K or >50K. Got '.*50k'. C"):
        load_dataset("adult", folder=folder)
    (folder / "adult.data").write_bytes(lines[0].replace(", ", "\r", 1).encode())
    with pytest.raises(DatasetError, match="adult.data, line 1: new-line character .*Get the file again"):
        load_dataset("adult", folder=folder)
    (folder / "adult.data").write_text("\n")
    with pytest.raises(DatasetError, match="adult.data has no rows. Get the file again."):
        load_dataset("adult", folder=folder)


def test_a_damaged_gzip_file_is_named(tmp_path):
    """Whichever byte is wrong, the error is ours."""
    folder = make_files("adult", tmp_path)
    content = bytearray(gzip.compress((folder / "adult.data").read_bytes()))
    (folder / "adult.data").unlink()
    for place in range(10, 400, 13):
        damaged = content.copy()
        damaged[place] ^= 0xFF
        (folder / "adult.data.gz").write_bytes(damaged)
        with pytest.raises(DatasetError, match="adult.data.gz"):
            load_dataset("adult", folder=folder)


def test_a_table_too_small_for_its_shares_is_named(tmp_path):
    """Four rows of each label at each site leave none for validation."""
    rows = [f"{site},{label},{number}" for site in "ab" for label in "yn" for number in range(4)]
    (tmp_path / "table.csv").write_text("\n".join(["site,diagnosis,age", *rows]))
    describe(tmp_path, GOOD)
    with pytest.raises(DatasetError, match="table.csv has 16 rows, which leaves none for validation: .*larger shares"):
        load_dataset("table", folder=tmp_path)


@pytest.mark.parametrize("column", ["site", "diagnosis"])
def test_rows_without_label_or_environment_are_numbered(tmp_path, column):
    """The error counts the rows and gives the first one's number."""
    rows = [["A", "ill", "1"], ["B", "well", "2"], ["A", "well", "3"], ["B", "ill", "4"]]
    for row in rows[2:]:
        row[("site", "diagnosis").index(column)] = ""
    lines = [",".join(row) for row in rows]
    (tmp_path / "table.csv").write_text("\n".join(["site,diagnosis,age", *lines]))
    describe(tmp_path, GOOD)
    with pytest.raises(DatasetError, match=f"column '{column}' is empty in 2 rows, first in row 3 below the header"):
        load_dataset("table", folder=tmp_path)
