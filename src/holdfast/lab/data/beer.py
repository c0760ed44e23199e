"""BeerReview sentiment with an artificial token: the authors' JSON lines, or a plain TSV of reviews."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.datasets.coloring import Codes, agreeing_codes
from holdfast.datasets.folders import candidate_folders, find_file, missing_file
from holdfast.datasets.options import check_choice, check_count, check_probabilities, check_probability
from holdfast.datasets.splits import deal_rows
from holdfast.datasets.values import Dataset, DatasetEntry, Split, join_splits
from holdfast.environments import Rows
from holdfast.exceptions import DatasetError, ParameterError
from holdfast.lab.data.files import read_json_lines, text_of, zero_or_one
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
    number: int, folders: list[Path], folder: Path | str | None
) -> tuple[list[Reviews], dict[str, Reviews], Reviews]:
    """Read the five files of an aspect: the two environments, the two validation settings, test.

    Parameters
    ----------
    number : int
        The aspect: 0 look, 1 aroma, 2 palate.
    folders : list of Path
        Where to look.
    folder : path or None
        What the user said, for the error message.
    """
    stem = f"art_aspect_{number}_env_"
    read = {}
    for part in ("0", "1", "1_val", "2_val", "2"):
        found = find_file(f"{stem}{part}.json", folders)
        if found is None:
            raise missing_file("beer", f"{stem}{part}.json", folder)
        read[part] = _read_reviews(found)
    return [read["0"], read["1"]], {"train": read["1_val"], "test": read["2_val"]}, read["2"]


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
MIN_COUNT = 5  # words that occur less often are not in the paper's vocabulary
PAPER_ETAS, PAPER_TEST_ETA = (0.9, 0.8), 0.1


def load_beer(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    aspect: str = "look",
    etas: Sequence[float] | None = None,
    test_eta: float | None = None,
    min_tokens: int = PAPER_LENGTHS[0],
    max_tokens: int = PAPER_LENGTHS[1],
    balance: bool = True,
    test_injections: int = 1,
) -> Dataset:
    """Load reviews whose artificial token agrees with the sentiment in training and contradicts it in the test.

    The authors' files are taken if they are there: ``art_aspect_{k}_env_{0,1,2}.json`` and ``…_env_{1,2}_val.json``,
    k = 0 look, 1 aroma, 2 palate. Else ``train.tsv``, ``dev.tsv`` and ``test.tsv`` with the columns label and comment,
    in a folder ``beer_{aspect}`` (look: any folder but the other aspects'); the training reviews are dealt evenly to
    the environments, by label.

    Parameters
    ----------
    folder : path, optional
        Holds the files, or a subfolder ``beer``, ``beer_look``, … with them. None: the cache.
    seed : int, default=0
        Deals reviews, balances and draws tokens.
    aspect : {"look", "aroma", "palate"}, default="look"
        Which aspect's files to read.
    etas : sequence of float, optional
        Probability that the token agrees with the label, for each training environment. None: the authors' own tokens
        as they stand, and (0.9, 0.8) for a TSV.
    test_eta : float, optional
        The same in the test environment. None: the authors' own, and 0.1 where tokens are drawn.
    min_tokens, max_tokens : int, default=10, 300
        Reviews of a TSV outside these lengths are left out.
    balance : bool, default=True
        Leave out reviews of a TSV's more frequent label until both are as frequent, in each split.
    test_injections : int, default=1
        How often tokens are drawn for the test reviews (attribute ``injection``); more than one draws anew.

    Returns
    -------
    Dataset
        X is a list of texts, the token at the end. The attribute is ``token``, in the codes of y.
    """
    number = ASPECTS.index(check_choice("aspect", aspect, ASPECTS))
    check_count("min_tokens", min_tokens, least=0)
    check_count("max_tokens", max_tokens)
    if min_tokens > max_tokens:
        raise ParameterError(
            f"The 'min_tokens' option is {min_tokens} and 'max_tokens' is {max_tokens}. No review has such a length: "
            "'min_tokens' must be at most 'max_tokens'."
        )
    check_count("test_injections", test_injections)
    etas = None if etas is None else check_probabilities("etas", etas)
    folders = candidate_folders(folder, (f"beer_{aspect}", "beer", "beer_review"))
    streams = Seeding(seed)
    notes: list[str] = []
    if find_file(f"art_aspect_{number}_env_0.json", folders) is not None:
        environments, validations, test = read_authors(number, folders, folder)
    else:
        environments, validation, test = _read_tsv(
            aspect, folders, folder, (min_tokens, max_tokens), balance, len(etas or PAPER_ETAS), streams, notes
        )
        validations = {"train": validation, "test": validation}
        etas = PAPER_ETAS if etas is None else etas
    if etas is not None and len(etas) != len(environments):
        environments = _deal_again(environments, len(etas), streams)
    if test_eta is None and (etas is not None or test_injections > 1):
        test_eta = PAPER_TEST_ETA
    if test_eta is not None:
        check_probability("test_eta", test_eta)

    def split(reviews: Reviews, label: str, eta: float | None, *stream: object) -> Split:
        tokens = _tokens(reviews, eta, streams.generator("tokens", label, *stream))
        texts = [f"{text} {TOKENS[token]}" for text, token in zip(reviews.texts, tokens, strict=True)]
        attributes = {"token": tokens, "injection": np.full(len(texts), stream[-1])}
        return Split(texts, reviews.y, np.full(len(texts), label), attributes)

    names = [f"E{i}" for i in range(1, len(environments) + 1)]
    wanted: list[float | None] = [None] * len(names) if etas is None else list(etas)
    train = [split(part, name, eta, "train", 0) for part, name, eta in zip(environments, names, wanted, strict=True)]
    validation_splits = {
        "train": split(validations["train"], names[-1], wanted[-1], "validation", 0),
        "test": split(validations["test"], "test", test_eta, "validation", 0),
    }
    tests = [split(test, "test", test_eta, "test", i) for i in range(test_injections)]
    notes += _compare(
        aspect, [*environments, *validations.values(), test], [*names, "validation", "validation", "test"]
    )
    return Dataset(
        "beer",
        join_splits(train),
        validation_splits,
        join_splits(tests),
        ("negative", "positive"),
        ("token",),
        "token",
        tuple(dict.fromkeys(notes)),
    )


def _tokens(reviews: Reviews, eta: float | None, generator: np.random.Generator) -> Codes:
    """Return the file's own tokens, or drawn ones where an agreement is asked for or the file has none."""
    if eta is None and reviews.tokens is not None:
        return reviews.tokens
    return agreeing_codes(reviews.y, PAPER_TEST_ETA if eta is None else eta, 2, generator)


def count_words(texts: Iterable[str], min_count: int = MIN_COUNT) -> int:
    """Return how many different words occur at least `min_count` times.

    Examples
    --------
    >>> count_words(["dark dark beer", "dark beer"], min_count=2)
    2
    """
    counts = Counter(token for text in texts for token in text.split())
    return sum(count >= min_count for count in counts.values())


def _read_tsv(
    aspect: str,
    folders: list[Path],
    folder: Path | str | None,
    lengths: tuple[int, int],
    balance: bool,
    n_environments: int,
    streams: Seeding,
    notes: list[str],
) -> tuple[list[Reviews], Reviews, Reviews]:
    """Read train, dev and test; filter, balance, and deal the training reviews."""
    splits, own = {}, _tsv_folder(aspect, folders)
    for name in ("train", "dev", "test"):
        path = None if own is None else find_file(f"{name}.tsv", [own])
        if path is None:
            table = f"{name}.tsv in a folder beer_{aspect}" if own is None else f"{own.name}/{name}.tsv"
            raise missing_file(
                "beer", f"art_aspect_{ASPECTS.index(aspect)}_env_0.json and its four companions, or {table}", folder
            )
        everything = read_tsv(path)
        n_tokens = np.array([len(text.split()) for text in everything.texts])
        rows = np.flatnonzero((n_tokens >= lengths[0]) & (n_tokens <= lengths[1]))
        n_odd = len(n_tokens) - len(rows)
        _refuse_none(path, everything.y[rows], len(n_tokens), lengths, balance)
        if balance:
            rows = _balanced(rows, everything.y, streams.generator("balance", name))
        notes.append(
            f"{path.name}: {len(rows):,} of {len(n_tokens):,} reviews used; {n_odd} are shorter than {lengths[0]} or "
            f"longer than {lengths[1]} tokens, {len(n_tokens) - n_odd - len(rows)} left out to balance the labels"
        )
        splits[name] = everything.take(rows)
    environments = _deal_again([splits["train"]], n_environments, streams)
    return environments, splits["dev"], splits["test"]


def _refuse_none(path: Path, y: Codes, n_reviews: int, lengths: tuple[int, int], balance: bool) -> None:
    """Refuse a table of which no review would be left."""
    if not len(y):
        raise DatasetError(
            f"{path}: none of its {n_reviews:,} reviews has {lengths[0]} to {lengths[1]} tokens. "
            "Pass other min_tokens and max_tokens, or get the file again."
        )
    if balance and len(set(y.tolist())) == 1:
        raise DatasetError(
            f"{path}: all {len(y):,} reviews of {lengths[0]} to {lengths[1]} tokens have the label {y[0]}, so that "
            "balancing the labels leaves none. Add reviews of the other label, or pass balance=False."
        )


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


def _compare(aspect: str, parts: list[Reviews], names: list[str]) -> list[str]:
    """Say where sizes, lengths and vocabulary differ from the paper's."""
    notes = [
        f"{name}: {len(part.texts):,} reviews, the paper has {PAPER_ROWS[name]:,}"
        for part, name in zip(parts, names, strict=True)
        if name in PAPER_ROWS and len(part.texts) != PAPER_ROWS[name]
    ]
    different = list(dict.fromkeys(text for part in parts for text in part.texts))
    n_odd = sum(not PAPER_LENGTHS[0] <= len(text.split()) <= PAPER_LENGTHS[1] for text in different)
    if n_odd:
        notes.append(f"{n_odd} reviews are shorter than 10 or longer than 300 tokens, which the paper leaves out")
    n_words = count_words(text for part in dict.fromkeys(parts) for text in part.texts)
    if n_words != PAPER_WORDS[aspect]:
        notes.append(f"{n_words:,} words occur at least {MIN_COUNT} times, the paper has {PAPER_WORDS[aspect]:,}")
    return notes


BEER = DatasetEntry(
    summary="BeerReview sentiment (look, aroma, palate) with an artificial token.",
    loader=load_beer,
    instructions=(
        "In FOLDER, FOLDER/beer or FOLDER/beer_look (_aroma, _palate), either the authors' JSON lines, for\n"
        "aspect k = 0 look, 1 aroma, 2 palate:\n"
        "  art_aspect_{k}_env_0.json  art_aspect_{k}_env_1.json  art_aspect_{k}_env_1_val.json\n"
        "  art_aspect_{k}_env_2_val.json  art_aspect_{k}_env_2.json\n"
        "(linked from their repository, YujiaBao/Predict-then-Interpolate on GitHub), or one aspect's tables:\n"
        "  train.tsv  dev.tsv  test.tsv   (columns label, 0 or 1, and comment)\n"
        "Tables outside a folder beer_aroma or beer_palate are those of look.\n"
        "A text network also needs word vectors; 'holdfast data vectors --show' says which."
    ),
)
