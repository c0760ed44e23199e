"""The parts of a story as files of their own: tables as Markdown, LaTeX and CSV, figures as SVG and PNG."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path

from holdfast.reports.figure_tables import crop_figure, figure_table
from holdfast.reports.story import Sentences, Story
from holdfast.reports.tables import Table, to_csv, to_latex, to_markdown
from holdfast.storage import storage_errors, write_bytes

FORMS = {".md": to_markdown, ".tex": to_latex, ".csv": to_csv}


def write_assets(story: Story, folder: str | os.PathLike[str]) -> list[Path]:
    """Write every table of a story as .md, .tex and .csv, and every figure as .svg, .png and .csv.

    Parameters
    ----------
    story : Story
    folder : path
        Made where it is missing. Files are numbered in the order of the story: 03-label-balance.svg.

    Returns
    -------
    list of pathlib.Path
        The files, in the order of the story.
    """
    from holdfast.reports.figures import save_figure

    folder = Path(folder)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    blocks = [block for block in story.blocks() if not isinstance(block, Sentences)]
    written = []
    for number, block in enumerate(blocks, start=1):
        stem = folder / f"{number:02d}-{file_name(block.title)}"
        if isinstance(block, Table):
            written += [_write(stem.with_suffix(suffix), form(block)) for suffix, form in FORMS.items()]
        else:
            written += [save_figure(crop_figure(block), stem.with_suffix(suffix)) for suffix in (".svg", ".png")]
            written.append(_write(stem.with_suffix(".csv"), to_csv(figure_table(block))))
    return written


def file_name(title: str) -> str:
    """Return a title as a harmless part of a file name.

    Examples
    --------
    >>> file_name("Accuracy: ../é <b>"), file_name("…")
    ('accuracy-e-b', 'untitled')
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-") or "untitled"


def _write(path: Path, text: str) -> Path:
    write_bytes(path, (text.rstrip("\n") + "\n").encode("utf-8"))
    return path
