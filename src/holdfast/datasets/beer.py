"""BeerReview: sentiment of reviews with an artificial token, from the authors' JSON lines or from TSV files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.datasets.drawing import (
    Codes,
    agreeing_codes,
    check_choice,
    check_probabilities,
    check_probability,
    deal_rows,
)
from holdfast.datasets.files import read_json_lines, text_of, word_notes, zero_or_one
from holdfast.datasets.folders import candidate_folders, find_file, missing_file
from holdfast.datasets.values import Dataset, DatasetEntry, Split, join_splits, size_notes
from holdfast.environments import Rows
from holdfast.exceptions import DatasetError
from holdfast.seeding import Seeding

TOKENS = ("<art_negative>", "<art_positive>")  # by label code


@dataclass(frozen=True, eq=False)
class Reviews:
    """Reviews without artificial tokens, their labels and, where the file has them, the tokens' codes."""

    texts: list[str]
    y: Codes  # (n_rows,)
    tokens: Codes | None = None  # (n_rows,)

    def take(self, rows: Rows) -> Reviews:
        """Return these reviews."""
        tokens = None if self.tokens is None else self.tokens[rows]
        return Reviews([self.texts[row] for row in rows], self.y[rows], tokens)


def read_authors(
    dataset: str, stem: str, folders: list[Path], folder: Path | str | None
) -> tuple[list[Reviews], dict[str, Reviews], Reviews]:
    """Read files of the authors that are cut into environments: the two of training, the validation settings, test.

    Validation rows like the test, env_2_val, may be absent: that setting is then left out.
    """
    read = {}
    for part in ("0", "1", "1_val", "2_val", "2"):
        found = find_file(f"{stem}_env_{part}.json", folders)
        if found is not None:
            read[part] = _read_reviews(found)
        elif part != "2_val":
            raise missing_file(dataset, f"{stem}_env_{part}.json", folder)
    validations = {name: read[part] for name, part in (("train", "1_val"), ("test", "2_val")) if part in read}
    return [read["0"], read["1"]], validations, read["2"]


def _read_reviews(path: Path) -> Reviews:
    """Read one JSON-lines file; a token that is in the text is taken out again."""
    texts, labels, tokens = [], [], []
    for line, row in read_json_lines(path, ("text", "y", "c")):
        text = text_of(row["text"], path, line)
        texts.append(_without_tokens(text))
        labels.append(zero_or_one(row["y"], "y", path, line))
        tokens.append(zero_or_one(row["c"], "c", path, line))
    return Reviews(texts, np.array(labels, dtype=np.intp), np.array(tokens, dtype=np.intp))


def _without_tokens(text: str) -> str:
    """Return a text without artificial tokens."""
    return " ".join(token for token in text.split() if token not in TOKENS)


def read_tsv(path: Path) -> Reviews:
    """Read a table with the columns label (0 or 1) and comment, separated by tabs; blank lines are skipped.

    A token that is in a comment is taken out again.
    """
    texts, labels = [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            csv.field_size_limit(1 << 30)
            reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            header = next(reader, [])
            if not {"label", "comment"} <= set(header):
                raise DatasetError(
                    f"{path}, line 1: the columns label and comment are needed. Got {header}. Name them in a "
                    "first line, separated by tabs."
                )
            for line, row in enumerate(reader, start=2):
                if len(row) <= 1 and not "".join(row).strip():
                    continue
                if len(row) != len(header):
                    raise DatasetError(
                        f"{path}, line {line}: {len(row)} columns where the header has {len(header)}. Correct the line."
                    )
                fields = dict(zip(header, row, strict=True))
                if fields["label"] not in ("0", "1"):
                    raise DatasetError(
                        f"{path}, line {line}: label must be 0 or 1. Got {fields['label'][:40]!r}. Correct the line."
                    )
                texts.append(_without_tokens(fields["comment"]))
                labels.append(int(fields["label"]))
    except UnicodeDecodeError as problem:
        raise DatasetError(f"{path} is not UTF-8 text ({problem.reason}). Save the file as UTF-8.") from problem
    except (csv.Error, OSError) as problem:
        raise DatasetError(f"{path} cannot be read ({problem}). Get the file again.") from problem
    if not texts:
        raise DatasetError(f"{path} has no reviews. Get the file again.")
    return Reviews(texts, np.array(labels, dtype=np.intp))


ASPECTS = ("look", "aroma", "palate")  # numbered 0, 1, 2 in the authors' file names
PAPER_ROWS = {"E1": 4_998, "E2": 4_998, "validation": 4_998, "test": 5_000}
PAPER_WORDS = {"look": 10_218, "aroma": 10_154, "palate": 10_086}
PAPER_LENGTHS = (10, 300)
PAPER_ETAS, PAPER_TEST_ETA = (0.9, 0.8), 0.1


def load_beer(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    aspect: str = "look",
    etas: Sequence[float] | None = None,
    test_eta: float | None = None,
) -> Dataset:
    """Load reviews whose artificial token agrees with the sentiment in training and contradicts it in the test.

    The authors' files are taken if they are there: ``art_aspect_{k}_env_{0,1,2}.json`` and ``…_env_{1,2}_val.json``, k
    = 0 look, 1 aroma, 2 palate; without ``env_2_val`` there are no validation rows like the test. Else ``train.tsv``,
    ``dev.tsv`` and ``test.tsv`` with the columns label and comment, in a folder ``beer_{aspect}`` (look: any folder but
    the other aspects'); the training reviews are dealt evenly to the environments, by label. Of these tables only
    reviews of 10 to 300 tokens are kept, as many of each label in each split. The token stands at the end of each text;
    the attribute ``token`` has its code.

    Parameters
    ----------
    seed : int, default=0
        Deals reviews, balances and draws tokens.
    aspect : {"look", "aroma", "palate"}, default="look"
        Which aspect's files to read.
    etas : sequence of float, optional
        Probability that the token agrees with the label, for each training environment. None: the authors' own tokens
        as they stand, and (0.9, 0.8) for a TSV.
    test_eta : float, optional
        The same in the test environment. None: the authors' own, and 0.1 where tokens are drawn.
    """
    number = ASPECTS.index(check_choice("aspect", aspect, ASPECTS))
    etas = None if etas is None else check_probabilities("etas", etas)
    folders = candidate_folders(folder, (f"beer_{aspect}", "beer", "beer_review"))
    streams = Seeding(seed)
    notes: list[str] = []
    if find_file(f"art_aspect_{number}_env_0.json", folders) is not None:
        environments, validations, test = read_authors("beer", f"art_aspect_{number}", folders, folder)
        if "test" not in validations:
            notes.append(f"art_aspect_{number}_env_2_val.json is absent: no validation rows like the test")
    else:
        (train_reviews, validation, test), notes = _read_tables(aspect, folders, folder, streams)
        environments, validations = [train_reviews], {"train": validation, "test": validation}
        etas = PAPER_ETAS if etas is None else etas
    if etas is not None and (len(etas) != len(environments) or environments[0].tokens is None):
        environments = _deal_again(environments, len(etas), streams)
    if test_eta is None and etas is not None:
        test_eta = PAPER_TEST_ETA
    if test_eta is not None:
        check_probability("test_eta", test_eta)

    def split(reviews: Reviews, label: str, eta: float | None, *stream: object) -> Split:
        tokens = reviews.tokens
        if eta is not None or tokens is None:
            agreement = PAPER_TEST_ETA if eta is None else eta
            tokens = agreeing_codes(reviews.y, agreement, 2, streams.generator("tokens", label, *stream))
        texts = [f"{text} {TOKENS[token]}" for text, token in zip(reviews.texts, tokens, strict=True)]
        return Split(texts, reviews.y, np.full(len(texts), label), {"token": tokens})

    names = [f"E{i}" for i in range(1, len(environments) + 1)]
    wanted: list[float | None] = [None] * len(names) if etas is None else list(etas)
    train = [split(part, name, eta, "train", 0) for part, name, eta in zip(environments, names, wanted, strict=True)]
    validation_splits = {"train": split(validations["train"], names[-1], wanted[-1], "validation", 0)}
    if "test" in validations:
        validation_splits["test"] = split(validations["test"], "test", test_eta, "validation", 0)
    held_out = [*(("validation", part) for part in validations.values()), ("test", test)]
    notes += _compare(aspect, [*zip(names, environments, strict=True), *held_out])
    return Dataset(
        "beer",
        join_splits(train),
        validation_splits,
        split(test, "test", test_eta, "test", 0),
        ("negative", "positive"),
        ("token",),
        "token",
        tuple(dict.fromkeys(notes)),
    )


def _read_tables(
    aspect: str, folders: list[Path], folder: Path | str | None, streams: Seeding
) -> tuple[list[Reviews], list[str]]:
    """Return the reviews of the right length in train, dev and test, as many of each label, and notes."""
    splits, notes, own = [], [], _tsv_folder(aspect, folders)
    low, high = PAPER_LENGTHS
    for name in ("train", "dev", "test"):
        path = None if own is None else find_file(f"{name}.tsv", [own])
        if path is None:
            table = f"{name}.tsv in a folder beer_{aspect}" if own is None else f"{own.name}/{name}.tsv"
            raise missing_file(
                "beer", f"art_aspect_{ASPECTS.index(aspect)}_env_0.json and its four companions, or {table}", folder
            )
        reviews = read_tsv(path)
        rows = np.flatnonzero([low <= len(text.split()) <= high for text in reviews.texts])
        n_reviews, n_odd = len(reviews.texts), len(reviews.texts) - len(rows)
        labels = reviews.y[rows]
        if not len(rows):
            raise DatasetError(
                f"{path}: none of its {n_reviews:,} reviews has {low} to {high} tokens. Get the file again."
            )
        if labels.min() == labels.max():
            raise DatasetError(
                f"{path}: all {len(rows):,} reviews of {low} to {high} tokens have the label {labels[0]}, so that "
                "balancing the labels leaves none. Add reviews of the other label."
            )
        rows = _balanced(rows, reviews.y, streams.generator("balance", name))
        notes.append(
            f"{path.name}: {len(rows):,} of {n_reviews:,} reviews used; {n_odd} are shorter than {low} or "
            f"longer than {high} tokens, {n_reviews - n_odd - len(rows)} left out to balance the labels; "
            f"{np.mean([len(reviews.texts[row].split()) for row in rows]):.0f} tokens on average"
        )
        splits.append(reviews.take(rows))
    return splits, notes


def _tsv_folder(aspect: str, folders: list[Path]) -> Path | None:
    """Return the folder with an aspect's tables: they do not say whose they are, so the folder's name does.

    Without an aspect in its name it has those of look.
    """
    named = {folder: folder.resolve().name for folder in folders}
    own = [folder for folder, name in named.items() if name == f"beer_{aspect}"]
    if aspect == ASPECTS[0]:
        own += [folder for folder, name in named.items() if name not in {f"beer_{a}" for a in ASPECTS}]
    return next((folder for folder in own if find_file("train.tsv", [folder], "dev.tsv", "test.tsv")), None)


def _balanced(rows: Rows, y: Codes, generator: np.random.Generator) -> Rows:
    """Return as many rows of each label, in order."""
    by_label = [rows[y[rows] == label] for label in (0, 1)]
    size = min(map(len, by_label))
    return np.sort(np.concatenate([generator.permutation(part)[:size] for part in by_label]))


def _deal_again(environments: list[Reviews], n_environments: int, streams: Seeding) -> list[Reviews]:
    """Pool the training reviews and deal them evenly, by label; the tokens they came with are forgotten."""
    texts = [text for part in environments for text in part.texts]
    pooled = Reviews(texts, np.concatenate([part.y for part in environments]))
    deal = deal_rows(pooled.y, n_environments, validation_share=0, test_share=0, generator=streams.generator("deal"))
    return [pooled.take(rows) for rows in deal.environments]


def _compare(aspect: str, parts: Sequence[tuple[str, Reviews]]) -> list[str]:
    """Return how sizes, lengths and vocabulary differ from the paper's."""
    notes = [note for name, part in parts for note in size_notes({name: len(part.texts)}, PAPER_ROWS, "reviews")]
    different = dict.fromkeys(text for _, part in parts for text in part.texts)
    n_odd = sum(not PAPER_LENGTHS[0] <= len(text.split()) <= PAPER_LENGTHS[1] for text in different)
    if n_odd:
        notes.append(f"{n_odd} reviews are shorter than 10 or longer than 300 tokens, which the paper leaves out")
    distinct = {id(part): part for _, part in parts}  # both validation settings may be the same reviews
    return notes + word_notes((text for part in distinct.values() for text in part.texts), PAPER_WORDS[aspect])


BEER = DatasetEntry(
    summary="BeerReview sentiment (look, aroma, palate) with an artificial token.",
    loader=load_beer,
    instructions=(
        "In FOLDER, FOLDER/beer or FOLDER/beer_look (_aroma, _palate), either the authors' JSON lines, for\n"
        "aspect k = 0 look, 1 aroma, 2 palate:\n"
        "  art_aspect_{k}_env_0.json  art_aspect_{k}_env_1.json  art_aspect_{k}_env_1_val.json\n"
        "  art_aspect_{k}_env_2_val.json (may be absent)  art_aspect_{k}_env_2.json\n"
        "(they are not public: the authors, YujiaBao/Predict-then-Interpolate on GitHub, ask to write to them),\n"
        "or one aspect's tables, which may be sentences about the aspect instead of whole reviews:\n"
        "  train.tsv  dev.tsv  test.tsv   (columns label, 0 or 1, and comment)\n"
        "Tables outside a folder beer_aroma or beer_palate are those of look.\n"
        "A text network also needs word vectors; 'holdfast data vectors --show' says which."
    ),
)
