"""Files of BeerReview: the authors' JSON lines, and plain TSV tables of reviews."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.datasets.coloring import Codes
from holdfast.datasets.folders import find_file, missing_file
from holdfast.datasets.json_lines import read_json_lines, text_of, zero_or_one
from holdfast.environments import Rows
from holdfast.exceptions import DatasetError

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
