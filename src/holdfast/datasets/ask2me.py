"""ASK2ME: abstracts with 0/1 attributes, from the authors' JSON lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.beer import Reviews, read_authors
from holdfast.datasets.drawing import check_count, check_probability
from holdfast.datasets.files import is_flag, read_json_lines, text_of, word_notes, zero_or_one
from holdfast.datasets.folders import candidate_folders, find_file, missing_file
from holdfast.datasets.values import Dataset, DatasetEntry, Split, join_splits, size_notes, split_sizes
from holdfast.exceptions import DatasetError, ParameterError
from holdfast.seeding import Seeding

FILE = "pubmed.json"
LABEL = "penetrance"
ENVIRONMENT = "breast cancer"
ATTRIBUTES = (
    "adenocarcinoma", "polyp syndrom", "brain cancer", "breast cancer", "colorectal cancer", "endometrial cancer",
    "gastric cancer", "hepatobiliary cancer", "kidney cancer", "lung cancer", "melanoma", "neoplasia", "ovarian cancer",
    "pancreatic cancer", "prostate cancer", "rectal cancer", "thyroid cancer",
)  # fmt: skip
PAPER_ROWS = {f"{ENVIRONMENT}=0": 2_227, f"{ENVIRONMENT}=1": 1_394, "validation": 1_448, "test": 2_173}
PAPER_WORDS = 16_310


def load_ask2me(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    label: str = LABEL,
    environment: str = ENVIRONMENT,
    max_tokens: int = 500,
    validation_share: float = 0.2,
    test_share: float = 0.3,
) -> Dataset:
    """Load abstracts; an attribute defines the environments, the others are what a classifier should not rely on.

    Texts are in lower case. The attributes are all other keys that are 0 or 1 in every line, the environment's
    included; the notes name keys that are so in the first line only.

    Without ``pubmed.json`` the files of the authors' later work are read, ``penetrance_env_{0,1,1_val,2}.json`` with
    the keys text, y and c. They are cut into environments already, and have one attribute, ``c``; of the options below,
    `label` is the first part of their names, `max_tokens` holds, and the others change nothing.

    Parameters
    ----------
    seed : int, default=0
        Shuffles rows into the splits.
    label : str, default="penetrance"
        Key to predict.
    environment : str, default="breast cancer"
        Attribute whose values are the environments.
    max_tokens : int, default=500
        Longer texts are left out.
    validation_share, test_share : float, default=0.2, 0.3
        Shares of the rows; the rest trains.
    """
    check_count("max_tokens", max_tokens)
    shares = check_probability("validation_share", validation_share), check_probability("test_share", test_share)
    if sum(shares) >= 1:
        raise ParameterError(f"validation_share and test_share sum to {sum(shares):g} and leave no training rows.")
    folders = candidate_folders(folder, ("ask2me", "pubmed"))
    path = find_file(FILE, folders)
    if path is None and find_file(f"{label}_env_0.json", folders) is not None:
        return _load_cut(label, folders, folder, max_tokens)
    if path is None:
        raise missing_file("ask2me", f"{FILE} or {label}_env_0.json and its companions", folder)
    texts, columns, dropped = read_abstracts(path, (label, environment))
    kept = np.array([len(text.split()) <= max_tokens for text in texts])
    if not kept.any():
        raise DatasetError(f"{path}: all {len(texts):,} texts have more than {max_tokens} tokens. Raise max_tokens.")
    order = Seeding(seed).generator("splits").permutation(np.flatnonzero(kept))
    n_validation, n_test = int(len(order) * shares[0]), int(len(order) * shares[1])
    n_train = len(order) - n_validation - n_test
    attribute_names = tuple(name for name in columns if name != label)

    def split(rows: NDArray[np.intp]) -> Split:
        environments = np.array([f"{environment}={value}" for value in columns[environment][rows]])
        attributes = {name: columns[name][rows] for name in attribute_names}
        return Split([texts[row] for row in rows], columns[label][rows], environments, attributes)

    train, validation, test = (split(rows) for rows in np.split(order, [n_train, n_train + n_validation]))
    notes = [*dropped, *size_notes(split_sizes(train, validation, test), PAPER_ROWS)]
    if len(attribute_names) != len(ATTRIBUTES):
        notes.append(f"{len(attribute_names)} attributes, the paper has {len(ATTRIBUTES)}")
    if not kept.all():
        notes.append(f"{(~kept).sum()} texts of more than {max_tokens} tokens are left out")
    notes += word_notes([*train.X, *validation.X, *test.X], PAPER_WORDS)
    return Dataset("ask2me", train, {"train": validation}, test, ("0", "1"), attribute_names, None, tuple(notes))


def _load_cut(label: str, folders: list[Path], folder: Path | str | None, max_tokens: int) -> Dataset:
    """Load files that are cut into environments and have one attribute."""
    environments, validations, test = read_authors("ask2me", label, folders, folder)
    n_long = 0

    def split(part: Reviews, name: str) -> Split:
        nonlocal n_long
        rows = np.flatnonzero([len(text.split()) <= max_tokens for text in part.texts])
        n_long += len(part.texts) - len(rows)
        if not len(rows):
            raise DatasetError(
                f"All {len(part.texts):,} texts of {name} in {label}_env_*.json have more than {max_tokens} tokens. "
                "Raise max_tokens."
            )
        kept = part.take(rows)
        texts = [text.lower() for text in kept.texts]
        return Split(texts, kept.y, np.full(len(rows), name), {} if kept.tokens is None else {"c": kept.tokens})

    train = [split(part, f"E{number}") for number, part in enumerate(environments, start=1)]
    held_out = {name: split(part, "E2" if name == "train" else "test") for name, part in validations.items()}
    tested = split(test, "test")
    notes = [
        f"{label}_env_*.json: environments as the files cut them and one attribute, the paper has {len(ATTRIBUTES)}"
    ]
    if n_long:
        notes.append(f"{n_long} texts of more than {max_tokens} tokens are left out")
    notes += word_notes([text for part in (*train, *held_out.values(), tested) for text in part.X], PAPER_WORDS)
    return Dataset("ask2me", join_splits(train), held_out, tested, ("0", "1"), ("c",), None, tuple(notes))


def read_abstracts(
    path: Path, required: tuple[str, ...]
) -> tuple[list[str], dict[str, NDArray[np.intp]], tuple[str, ...]]:
    """Return lower-case texts, the 0/1 columns, and which keys are left out, and why.

    Columns are the keys that are 0 or 1 in the first line. The required ones and the paper's attributes must be so in
    every line; any other key that is not, such as a running number, is not an attribute.
    """
    texts: list[str] = []
    values: dict[str, list[int]] = {}
    dropped: dict[str, str] = {}
    strict = {*required, *ATTRIBUTES}
    for line, row in read_json_lines(path, ("text", *required)):
        if not texts:
            values = {key: [] for key in row if key != "text" and is_flag(row[key])}
            missing = [key for key in required if key not in values]
            if missing:
                raise DatasetError(
                    f"{path}, line {line}: {missing[0]!r} must be 0 or 1. Got {row[missing[0]]!r}. "
                    "Write it as a number in every line, or name another key."
                )
        texts.append(text_of(row["text"], path, line).lower())
        for key, column in list(values.items()):
            if key not in strict and not (key in row and is_flag(row[key])):
                why = "is not 0 or 1" if key in row else "is missing"
                dropped[key] = f"the key {key!r} is not an attribute: it {why} in line {line}"
                del values[key]
                continue
            if key not in row:
                raise DatasetError(f"{path}, line {line}: the key {key!r} is missing, which line 1 has. Add the key.")
            column.append(zero_or_one(row[key], key, path, line))
    return texts, {key: np.array(column, dtype=np.intp) for key, column in values.items()}, tuple(dropped.values())


ASK2ME = DatasetEntry(
    summary="ASK2ME abstracts with 17 disease attributes.",
    loader=load_ask2me,
    instructions=(
        "In FOLDER or FOLDER/ask2me, the authors' file pubmed.json (it is not public: the authors,\n"
        "YujiaBao/Predict-then-Interpolate on GitHub, ask to write to them):\n"
        "one JSON object a line with text, penetrance and a 0/1 key for each attribute. Or the files of their later\n"
        "work (YujiaBao/Tofu), with text, y and c in each line:\n"
        "  penetrance_env_0.json  penetrance_env_1.json  penetrance_env_1_val.json  penetrance_env_2.json\n"
        "A text network also needs word vectors; 'holdfast data vectors --show' says which."
    ),
)
