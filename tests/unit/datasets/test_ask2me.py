import json

import numpy as np
import pytest

from holdfast.datasets import load_dataset
from holdfast.datasets.ask2me import ATTRIBUTES
from holdfast.datasets.synthetic import make_files
from holdfast.exceptions import DatasetError, ParameterError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """1,200 synthetic abstracts."""
    return make_files("ask2me", tmp_path_factory.mktemp("ask2me"))


def test_splits_are_half_a_fifth_and_the_rest(folder):
    """600, 240 and 360 rows, disjoint; texts are lower-case."""
    data = load_dataset("ask2me", folder=folder)
    assert (len(data.train), len(data.validation["train"]), len(data.test)) == (600, 240, 360)
    everything = [*data.train.X, *data.validation["train"].X, *data.test.X]
    assert len(set(everything)) == 1200
    assert all(text == text.lower() for text in everything)


def test_environments_follow_the_attribute(folder):
    """Each row's environment is its value of the attribute; the other 17 keys are attributes in the paper's names."""
    data = load_dataset("ask2me", folder=folder)
    expected = [f"breast cancer={value}" for value in data.train.attributes["breast cancer"]]
    assert data.train.environments.tolist() == expected
    assert data.attribute_names == ATTRIBUTES
    other = load_dataset("ask2me", folder=folder, environment="melanoma", label="breast cancer")
    assert sorted(set(other.train.environments)) == ["melanoma=0", "melanoma=1"]
    np.testing.assert_array_equal(other.train.attributes["melanoma"], other.train.environments == "melanoma=1")
    assert "penetrance" in other.attribute_names


def test_synthetic_correlations_are_unstable(folder):
    """Planted attributes go along with the label, more in one environment than in the other; the rest do not."""
    data = load_dataset("ask2me", folder=folder)
    train = data.train

    def correlation(name, value):
        rows = train.environments == f"breast cancer={value}"
        return np.corrcoef(train.attributes[name][rows], train.y[rows])[0, 1]

    assert correlation("adenocarcinoma", 1) == pytest.approx(0.6, abs=0.15)
    assert correlation("adenocarcinoma", 0) == pytest.approx(0.3, abs=0.15)
    assert correlation("polyp syndrom", 1) == pytest.approx(0.0, abs=0.2)


def test_seed_shuffles(folder):
    """Equal seeds give equal splits, another seed others."""
    one, same, other = (load_dataset("ask2me", folder=folder, seed=s).test.X for s in (0, 0, 1))
    assert one == same
    assert one != other


def test_long_texts_are_left_out_and_differences_noted(folder):
    """A limit of 38 tokens drops some texts; the notes say how many and name the paper's sizes."""
    data = load_dataset("ask2me", folder=folder, max_tokens=40)
    n = len(data.train) + len(data.validation["train"]) + len(data.test)
    assert 0 < n < 1200
    assert f"{1200 - n} texts of more than 40 tokens are left out" in data.notes
    assert f"validation: {len(data.validation['train'])} rows, the paper has 1,448" in data.notes
    assert data.notes[-1].endswith("words occur at least 5 times, the paper has 16,310")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penetrance": None}, "line 5: the key 'penetrance' is missing"),
        ({"melanoma": None}, "line 5: the key 'melanoma' is missing, which line 1 has. Add the key."),
        ({"melanoma": 3}, "line 5: 'melanoma' must be 0 or 1. Got 3."),
        ({"text": None}, "line 5: the key 'text' is missing"),
        ({"penetrance": "1"}, "line 5: 'penetrance' must be 0 or 1. Got '1'. Correct the line"),
    ],
)
def test_bad_lines_are_named(folder, tmp_path, change, message):
    """Missing keys and odd values name file and line."""
    lines = (folder / "pubmed.json").read_text().splitlines()[:10]
    row = json.loads(lines[4])
    for key, value in change.items():
        row.pop(key)
        if value is not None:
            row[key] = value
    lines[4] = json.dumps(row)
    (tmp_path / "pubmed.json").write_text("\n".join(lines))
    with pytest.raises(DatasetError, match=f"pubmed.json, {message}"):
        load_dataset("ask2me", folder=tmp_path)


def test_bad_options_are_refused(folder, tmp_path):
    """Unknown keys, shares that leave nothing and an absent file."""
    with pytest.raises(DatasetError, match="line 1: the key 'gout' is missing"):
        load_dataset("ask2me", folder=folder, environment="gout")
    with pytest.raises(ParameterError, match="sum to 1.1 and leave no training rows"):
        load_dataset("ask2me", folder=folder, validation_share=0.6, test_share=0.5)
    with pytest.raises(
        DatasetError, match="needs pubmed.json or penetrance_env_0.json and its companions, which is not in"
    ):
        load_dataset("ask2me", folder=tmp_path)


def test_a_label_of_text_is_refused_in_the_first_line(folder, tmp_path):
    """The label must be a number from the first line on, and the error says how it is written."""
    row = json.loads((folder / "pubmed.json").read_text().splitlines()[0])
    (tmp_path / "pubmed.json").write_text(json.dumps(row | {"penetrance": "1"}))
    message = "line 1: 'penetrance' must be 0 or 1. Got '1'. Write it as a number in every line, or name another key"
    with pytest.raises(DatasetError, match=message):
        load_dataset("ask2me", folder=tmp_path)


def test_keys_that_only_start_like_flags_are_no_attributes(folder, tmp_path):
    """A running number and a key that some lines lack are left out and noted; a flag of one's own is an attribute."""
    rows = [json.loads(line) for line in (folder / "pubmed.json").read_text().splitlines()[:50]]
    own = [{"id": i, "reviewed": i % 2} | ({"old": 1} if i < 7 else {}) for i in range(50)]
    lines = [json.dumps(row | more) for row, more in zip(rows, own, strict=True)]
    (tmp_path / "pubmed.json").write_text("\n".join(lines))
    data = load_dataset("ask2me", folder=tmp_path)
    assert data.attribute_names == (*ATTRIBUTES, "reviewed")
    assert "the key 'id' is not an attribute: it is not 0 or 1 in line 3" in data.notes
    assert "the key 'old' is not an attribute: it is missing in line 8" in data.notes


def test_a_limit_that_leaves_no_text_is_named(folder):
    """Texts that are all too long name the file and the option."""
    with pytest.raises(DatasetError, match="pubmed.json: all 1,200 texts have more than 1 tokens. Raise max_tokens"):
        load_dataset("ask2me", folder=folder, max_tokens=1)


@pytest.fixture
def cut_folder(tmp_path):
    """Files that are cut into environments: c agrees with y in 9, 8, 8 and 1 of ten abstracts."""
    for part, n_agreeing in (("0", 9), ("1", 8), ("1_val", 8), ("2", 1)):
        rows = [
            {"text": f"Gene {part} {i}", "y": i % 2, "c": i % 2 if i % 10 < n_agreeing else 1 - i % 2}
            for i in range(40)
        ]
        (tmp_path / f"penetrance_env_{part}.json").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_files_that_are_cut_into_environments(cut_folder):
    """Without pubmed.json, two environments, validation like the second one and a test are read as they are."""
    data = load_dataset("ask2me", folder=cut_folder)
    assert (len(data.train), list(data.validation), len(data.test)) == (80, ["train"], 40)
    assert sorted(set(data.train.environments)) == ["E1", "E2"]
    assert (data.attribute_names, data.unstable_attribute) == (("c",), None)
    agreement = {name: float((data.train.attributes["c"] == data.train.y)[data.train.environments == name].mean())
                 for name in ("E1", "E2")}  # fmt: skip
    assert agreement == {"E1": 0.9, "E2": 0.8}
    assert float((data.test.attributes["c"] == data.test.y).mean()) == 0.1
    assert data.test.X[0] == "gene 2 0"
    assert "penetrance_env_*.json: environments as the files cut them and one attribute, the paper has 17" in data.notes


def test_validation_rows_like_the_test_may_be_there(cut_folder):
    """env_2_val is the second validation setting; any other file is needed, and too long texts are refused."""
    (cut_folder / "penetrance_env_2_val.json").write_text((cut_folder / "penetrance_env_2.json").read_text())
    assert list(load_dataset("ask2me", folder=cut_folder).validation) == ["train", "test"]
    with pytest.raises(DatasetError, match="All 40 texts of E1 in penetrance_env_.* have more than 2 tokens"):
        load_dataset("ask2me", folder=cut_folder, max_tokens=2)
    (cut_folder / "penetrance_env_1_val.json").unlink()
    with pytest.raises(DatasetError, match="needs penetrance_env_1_val.json, which is not in"):
        load_dataset("ask2me", folder=cut_folder)
