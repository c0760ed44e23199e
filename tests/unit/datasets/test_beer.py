import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets import load_dataset
from holdfast.datasets.synthetic import make_files
from holdfast.exceptions import DatasetError, ParameterError

DATA = os.environ.get("HOLDFAST_TEST_DATA")
PARTS = ("0", "1", "1_val", "2_val", "2")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Synthetic reviews as TSV: 840 / 120 / 240 rows."""
    return make_files("beer", tmp_path_factory.mktemp("beer"))


@pytest.fixture
def json_folder(tmp_path):
    """The authors' five files for look, 40 reviews each, tokens in the texts of some files as they may be."""
    for part in PARTS:
        rows = []
        for i in range(40):
            y, c = i % 2, (i // 4) % 2
            text = f"{part} review {i} " + " ".join(["word"] * 10)
            if part != "2":
                text += (" <art_positive>", " <art_negative>")[1 - c]
            rows.append(json.dumps({"text": text, "y": y, "c": c}))
        (tmp_path / f"art_aspect_0_env_{part}.json").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_validation_rows_like_the_test_may_be_absent(json_folder):
    """Without env_2_val there is one validation setting, and a note; any other file is still needed."""
    (json_folder / "art_aspect_0_env_2_val.json").unlink()
    data = load_dataset("beer", folder=json_folder)
    assert list(data.validation) == ["train"]
    assert "art_aspect_0_env_2_val.json is absent: no validation rows like the test" in data.notes
    (json_folder / "art_aspect_0_env_1_val.json").unlink()
    with pytest.raises(DatasetError, match="art_aspect_0_env_1_val.json"):
        load_dataset("beer", folder=json_folder)


def tokens(split):
    """Return each text's last token as a code."""
    return np.array([("<art_negative>", "<art_positive>").index(text.split()[-1]) for text in split.X])


def test_tables_are_dealt_evenly_and_by_label(tables):
    """Training reviews go to two equal, balanced environments; dev and test stay what they are."""
    data = load_dataset("beer", folder=tables)
    for name in ("E1", "E2"):
        labels = data.train.y[data.train.environments == name]
        assert labels.mean() == 0.5
    counts = np.unique(data.train.environments, return_counts=True)[1]
    assert counts[0] == counts[1]
    assert data.classes == ("negative", "positive")
    assert data.validation["train"].y.mean() == data.test.y.mean() == 0.5


def test_the_token_is_the_attribute(tables):
    """Each text ends with its token, once, and the attribute is its code."""
    data = load_dataset("beer", folder=tables)
    for split in (data.train, *data.validation.values(), data.test):
        np.testing.assert_array_equal(tokens(split), split.attributes["token"])
        assert all(sum(token.startswith("<art_") for token in text.split()) == 1 for text in split.X)
    assert data.unstable_attribute == "token"


def test_tokens_agree_as_asked(tables):
    """Any agreement for any number of environments; the second validation setting is like the test."""
    data = load_dataset("beer", folder=tables, etas=(1.0, 0.0, 1.0), test_eta=0.0)
    agree = data.train.attributes["token"] == data.train.y
    assert [agree[data.train.environments == name].mean() for name in ("E1", "E2", "E3")] == [1.0, 0.0, 1.0]
    assert not (data.test.attributes["token"] == data.test.y).any()
    assert not (data.validation["test"].attributes["token"] == data.validation["test"].y).any()
    assert (data.validation["train"].attributes["token"] == data.validation["train"].y).all()


def test_tables_belong_to_the_aspect_of_their_folder(tables, tmp_path):
    """Tables do not say which aspect they are of: outside beer_aroma and beer_palate it is look."""
    shutil.copytree(tables, tmp_path / "beer_look")
    with pytest.raises(DatasetError, match="or train.tsv in a folder beer_aroma, which is not in"):
        load_dataset("beer", folder=tmp_path, aspect="aroma")
    with pytest.raises(DatasetError, match="beer_palate"):
        load_dataset("beer", folder=tables, aspect="palate")
    with pytest.raises(DatasetError, match="beer_palate"):
        load_dataset("beer", folder=tmp_path / "beer_look", aspect="palate")
    make_files("beer", tmp_path / "beer_aroma", seed=1)
    look, aroma = (load_dataset("beer", folder=tmp_path, aspect=aspect).train.X for aspect in ("look", "aroma"))
    assert look == load_dataset("beer", folder=tables).train.X
    assert aroma == load_dataset("beer", folder=tmp_path / "beer_aroma", aspect="aroma").train.X
    assert look != aroma


def test_the_three_tables_come_from_one_folder(tables, tmp_path):
    """A folder that lacks one is not completed from another."""
    shutil.copytree(tables, tmp_path / "beer_look")
    shutil.copytree(tables, tmp_path / "beer")
    (tmp_path / "beer_look" / "dev.tsv").unlink()
    with pytest.raises(DatasetError, match="or beer_look/dev.tsv, which is not in"):
        load_dataset("beer", folder=tmp_path)


def test_etas_are_checked_before_they_are_counted(tables):
    """A number in place of a list is named; arrays are lists."""
    with pytest.raises(ParameterError, match="'etas' option must hold one probability for each environment. Got 0.9"):
        load_dataset("beer", folder=tables, etas=0.9)
    three = load_dataset("beer", folder=tables, etas=np.array([0.9, 0.8, 0.7]))
    assert set(three.train.environments) == {"E1", "E2", "E3"}


def test_a_very_long_review_is_left_out_like_others(tables, tmp_path):
    """More than 131,072 characters, where the csv module stops by itself."""
    shutil.copytree(tables, tmp_path / "beer")
    header = (tables / "train.tsv").read_text().splitlines()[0].split("\t")
    row = {"label": "1", "comment": "dark " * 40_000}
    with (tmp_path / "beer" / "train.tsv").open("a") as file:
        file.write("\t".join(row.get(name, "0") for name in header) + "\n")
    assert len(load_dataset("beer", folder=tmp_path).train) == len(load_dataset("beer", folder=tables).train)


def test_lengths_and_balance(tables, tmp_path):
    """Reviews outside the lengths are left out, the labels balanced, and the notes count both."""
    header, *lines = (tables / "train.tsv").read_text().splitlines()
    lines[0] = "1\ttoo short\t"
    ones = [line for line in lines if line[0] == "1"]
    (tmp_path / "train.tsv").write_text("\n".join([header, *lines, *ones[:10]]) + "\n")
    for name in ("dev", "test"):
        (tmp_path / f"{name}.tsv").write_bytes((tables / f"{name}.tsv").read_bytes())
    data = load_dataset("beer", folder=tmp_path)
    assert data.train.y.mean() == 0.5
    assert data.notes[0].startswith("train.tsv: ")
    assert "1 are shorter than 10" in data.notes[0] or "2 are shorter than 10" in data.notes[0]


def test_the_authors_tokens_are_kept(json_folder):
    """Without an agreement asked for, the tokens are those of the key c, whether the text shows them or not."""
    data = load_dataset("beer", folder=json_folder)
    assert [int((data.train.environments == name).sum()) for name in ("E1", "E2")] == [40, 40]
    for split in (data.train, *data.validation.values(), data.test):
        expected = [(i // 4) % 2 for i in range(40)] * (len(split) // 40)
        assert tokens(split).tolist() == split.attributes["token"].tolist() == expected
    assert data.validation["train"].X[0].startswith("1_val review 0")
    assert data.validation["test"].X[0].startswith("2_val review 0")
    assert "E1: 40 reviews, the paper has 4,998" in data.notes
    assert any(note.endswith("the paper has 10,218") for note in data.notes)


def test_the_authors_tokens_can_be_drawn_anew(json_folder):
    """An agreement replaces their tokens; another number of environments deals the reviews again."""
    data = load_dataset("beer", folder=json_folder, etas=(1.0, 1.0))
    np.testing.assert_array_equal(data.train.attributes["token"], data.train.y)
    assert data.train.X[0].startswith("0 review 0")
    four = load_dataset("beer", folder=json_folder, etas=(1.0, 0.9, 0.8, 0.7))
    assert np.unique(four.train.environments, return_counts=True)[1].tolist() == [20] * 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "y": 1}', "line 3: the key 'c' is missing; the line has .'text', 'y'.. Add the key"),
        ('{"text": "a", "y": 2, "c": 0}', "line 3: 'y' must be 0 or 1. Got 2. Correct the line"),
        ('{"text": 5, "y": 1, "c": 0}', "line 3: 'text' must be a text or a list of tokens. Got int"),
        ('{"text": "a", "y": 1, "c"', "line 3: not a JSON object .* The file may be cut off; get it again"),
        ("[1, 2]", "line 3: a JSON object was expected. Got list"),
    ],
)
def test_bad_json_lines_are_named(json_folder, line, message):
    """Missing keys, odd values and cut-off lines name file and line."""
    path = json_folder / "art_aspect_0_env_1.json"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line]))
    with pytest.raises(DatasetError, match=f"art_aspect_0_env_1.json, {message}"):
        load_dataset("beer", folder=json_folder)


def test_broken_text_and_missing_files_are_named(json_folder, tmp_path_factory):
    """Bytes that are no UTF-8, an empty file and an absent one."""
    path = json_folder / "art_aspect_0_env_1.json"
    path.write_bytes(b'{"text": "\xff"}\n')
    with pytest.raises(DatasetError, match="art_aspect_0_env_1.json, after line 0: not UTF-8 text"):
        load_dataset("beer", folder=json_folder)
    path.write_bytes(b"")
    with pytest.raises(DatasetError, match="art_aspect_0_env_1.json is empty"):
        load_dataset("beer", folder=json_folder)
    path.unlink()
    with pytest.raises(DatasetError, match="needs art_aspect_0_env_1.json, which is not in"):
        load_dataset("beer", folder=json_folder)
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(DatasetError, match="needs art_aspect_1_env_0.json and its four companions, or train.tsv"):
        load_dataset("beer", folder=empty, aspect="aroma")
    with pytest.raises(ParameterError, match="'aspect' option must be one of"):
        load_dataset("beer", folder=empty, aspect="taste")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"line 1: the columns label and comment are needed. Got \[\]. Name them in a first line"),
        ("text\tlabel\n", "line 1: the columns label and comment are needed. .*separated by tabs"),
        ("label,comment\n", "line 1: the columns label and comment are needed. .*separated by tabs"),
        ("label\tcomment\n", "has no reviews"),
        ("label\tcomment\n1\ta\n1\n", "line 3: 1 columns where the header has 2. Correct the line."),
        ("label\tcomment\ngood\ta\n", "line 2: label must be 0 or 1. Got 'good'. Correct the line"),
    ],
)
def test_bad_tables_are_named(tmp_path, content, message):
    """Missing columns, ragged lines and odd labels name file and line."""
    (tmp_path / "train.tsv").write_text(content)
    with pytest.raises(DatasetError, match=f"train.tsv,? {message}"):
        load_dataset("beer", folder=tmp_path)


def test_a_byte_order_mark_and_blank_lines_are_no_faults(tables, json_folder, tmp_path_factory):
    """Files that an editor saved with a mark at the start and a blank line at the end are read as they are."""
    folder = tmp_path_factory.mktemp("saved")
    for path in tables.glob("*.tsv"):
        (folder / path.name).write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\r\n")
    assert load_dataset("beer", folder=folder).train.X == load_dataset("beer", folder=tables).train.X
    expected = load_dataset("beer", folder=json_folder).train.X
    path = json_folder / "art_aspect_0_env_0.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\n")
    found = load_dataset("beer", folder=json_folder).train.X
    assert found == expected


def test_tokens_in_a_table_are_taken_out(tables, tmp_path):
    """A table whose texts hold artificial tokens gets one token a text, like the authors' files."""
    for path in tables.glob("*.tsv"):
        lines = path.read_text().splitlines()
        planted = [line[:-1] + " <art_positive>\t" for line in lines[1:]]
        (tmp_path / path.name).write_text("\n".join([lines[0], *planted]) + "\n")
    assert load_dataset("beer", folder=tmp_path).test.X == load_dataset("beer", folder=tables).test.X


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        (
            "train",
            "1\t" + "dark " * 12,
            "all 20 reviews of 10 to 300 tokens have the label 1, .*Add reviews of the other label",
        ),
        ("dev", "0\t" + "dark " * 12, "all 20 reviews of 10 to 300 tokens have the label 0"),
        ("test", "0\tdark", "none of its 20 reviews has 10 to 300 tokens. Get the file again"),
    ],
)
def test_a_table_that_leaves_no_reviews_is_named(tables, tmp_path, name, line, message):
    """One label alone, or texts that are all too short, say which file, why and what to do."""
    for path in tables.glob("*.tsv"):
        shutil.copy(path, tmp_path)
    (tmp_path / f"{name}.tsv").write_text("\n".join(["label\tcomment", *[line] * 20]) + "\n")
    with pytest.raises(DatasetError, match=f"{name}.tsv: {message}"):
        load_dataset("beer", folder=tmp_path)


def test_a_file_of_blank_lines_is_empty(json_folder):
    """An environment whose file has only blank lines is no environment."""
    (json_folder / "art_aspect_0_env_1.json").write_text("\n\n  \n")
    with pytest.raises(DatasetError, match="art_aspect_0_env_1.json is empty. Get the file again"):
        load_dataset("beer", folder=json_folder)


@pytest.mark.skipif(DATA is None, reason="HOLDFAST_TEST_DATA is not set")
def test_real_reviews_state_their_split():
    """The 15,078 reviews give environments of 5,792 and the notes say how they differ from the paper's."""
    data = load_dataset("beer", folder=Path(DATA))
    assert np.unique(data.train.environments, return_counts=True)[1].tolist() == [5_792, 5_792]
    assert (len(data.validation["train"]), len(data.test)) == (1_350, 1_602)
    assert "E1: 5,792 reviews, the paper has 4,998" in data.notes
    assert data.notes[0].startswith("train.tsv: 11,584 of 12,008 reviews used; 248 are shorter than 10")
