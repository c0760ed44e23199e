"""Small synthetic files in the formats of the loaders, to try things out without the real data."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.ask2me import ATTRIBUTES, FILE, LABEL
from holdfast.datasets.drawing import agreeing_codes, check_choice
from holdfast.datasets.files import make_folder
from holdfast.datasets.mnist import idx_bytes
from holdfast.extras import require
from holdfast.seeding import Seeding

TOML = 'file = "table.csv"\nlabel = "diagnosis"\nenvironment = "site"\nattributes = ["scanner"]\n'


def write_adult(folder: Path, generator: np.random.Generator, n_rows: int) -> None:
    """Write adult.data and adult.test: age and education predict the income, hours predict it better for men."""
    lines = []
    for _ in range(n_rows):
        male = generator.integers(2)
        rich = generator.random() < (0.35 if male else 0.2)
        age, years = int(generator.normal(45 if rich else 36, 8)), int(generator.normal(12 if rich else 9.5, 2))
        hours = int(generator.normal(48 if rich and male else 38, 5))
        work, race = generator.choice(["Private", "State-gov", "?"]), generator.choice(["White", "Black"])
        home = "Husband" if male else "Wife"
        cells = (age, work, 1, "HS-grad", years, "Divorced", "Sales", home, race, "Male" if male else "Female")
        lines.append(", ".join(map(str, (*cells, 0, 0, hours, "United-States", ">50K" if rich else "<=50K"))))
    cut = n_rows * 2 // 3
    (folder / "adult.data").write_text("\n".join(lines[:cut]) + "\n\n", encoding="utf-8")
    test = [f"{line}." for line in lines[cut:]]
    (folder / "adult.test").write_text("|1x3 Cross validator\n" + "\n".join(test) + "\n", encoding="utf-8")


def write_table(folder: Path, generator: np.random.Generator, n_rows: int) -> None:
    """Write table.csv and table.toml: two sites, a marker that is stable and a dose that follows the scanner."""
    y = np.arange(n_rows) % 2
    site = np.arange(n_rows) // 2 % 2
    marker = agreeing_codes(y, 0.75, 2, generator) + generator.normal(0, 0.2, n_rows)
    scanner = np.where(generator.random(n_rows) < np.where(site == 0, 0.95, 0.85), y, 1 - y)
    dose = scanner + generator.normal(0, 0.2, n_rows)
    rows = zip(site, marker, dose, scanner, y, strict=True)
    lines = [f"{'AB'[s]},{m:.3f},{d:.3f},{c},{('well', 'ill')[label]}" for s, m, d, c, label in rows]
    (folder / "table.csv").write_text(
        "\n".join(["site,marker,dose,scanner,diagnosis", *lines]) + "\n", encoding="utf-8"
    )
    (folder / "table.toml").write_text(TOML, encoding="utf-8")


def make_files(name: str, folder: Path | str, *, seed: int = 0, n_rows: int | None = None) -> Path:
    """Write a small synthetic data set into a folder, in the format of the real one; return the folder.

    - colored_mnist: scikit-learn's digits, enlarged to 28x28; load them with ``verify=False``.
    - beer: reviews of invented words, some of which mean something, as TSV, with ``vectors.npz``.
    - celeba: patches whose brightness is hair and whose tint is gender, as a zip with ``attrs.npz``.
    - ask2me: abstracts of invented words with 17 attributes. Each attribute has its word; half of them agree
      with the label, more so where ``breast cancer`` is 1, so that they are unstable.
    - adult: incomes that hours of work predict only for men; table: two sites and their scanners, with its TOML.
    """
    write, default = MAKERS[check_choice("name", name, MAKERS)]
    target = make_folder(Path(folder))
    write(target, Seeding(seed).generator("synthetic", name), default if n_rows is None else n_rows)
    return target


def _write_mnist(folder: Path, generator: np.random.Generator, n_rows: int) -> None:
    """Write the four idx files: five sixths training digits."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    rows = generator.permutation(len(digits))[:n_rows]
    enlarged = np.kron(images[rows].reshape(-1, 8, 8), np.ones((1, 3, 3)))  # (n_rows, 24, 24)
    pixels = np.pad(enlarged * 255 / 16, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    cut = n_rows * 5 // 6
    for stem, part in (("train", slice(cut)), ("t10k", slice(cut, None))):
        for kind, array in (("images-idx3", pixels[part]), ("labels-idx1", digits[rows][part].astype(np.uint8))):
            (folder / f"{stem}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(array), mtime=0))


def _write_beer(folder: Path, generator: np.random.Generator, n_rows: int) -> None:
    """Write train, dev and test tables: 20 words a review, three of which predict the label most of the time."""
    words = np.array([f"word{i}" for i in range(200)])
    y = generator.permutation(np.arange(n_rows) % 2)
    codes = generator.integers(40, 200, size=(n_rows, 20))
    predictive = agreeing_codes(y, 0.9, 2, generator)
    codes[:, ::7] = generator.integers(0, 20, size=(n_rows, 3)) + 20 * predictive[:, None]
    lines = [f"{label}\t{' '.join(words[row])}\t" for label, row in zip(y, codes, strict=True)]
    cuts = np.split(np.arange(n_rows), [n_rows * 7 // 10, n_rows * 8 // 10])
    for name, rows in zip(("train", "dev", "test"), cuts, strict=True):
        table = ["label\tcomment\trationale", *(lines[row] for row in rows)]
        (folder / f"{name}.tsv").write_text("\n".join(table) + "\n", encoding="utf-8")
    vectors = generator.normal(0, 0.4, size=(200, 16)).astype(np.float32)
    np.savez(folder / "vectors.npz", words=words, vectors=vectors)


def _write_celeba(folder: Path, generator: np.random.Generator, n_rows: int) -> None:
    """Write a zip of 24x20 images and a table with four attributes."""
    Image = require("PIL.Image", extra="neural", what="Images")

    male = np.arange(n_rows) % 2
    blond = (generator.random(n_rows) < np.where(male == 1, 0.15, 0.4)).astype(int)
    hat = agreeing_codes(male, 0.8, 2, generator)
    smiling = generator.integers(2, size=n_rows)
    pixels = generator.normal(90, 25, size=(n_rows, 24, 20, 3))
    pixels[:, :8] += 70 * blond[:, None, None, None]  # hair
    pixels[:, 8:, :, 0] += 50 * male[:, None, None]  # tint
    pixels[:, :3, :, 2] += 80 * hat[:, None, None]
    pixels[:, 18:] += 40 * smiling[:, None, None, None]
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for row, image in enumerate(pixels.clip(0, 255).astype(np.uint8), start=1):
            file = io.BytesIO()
            Image.fromarray(image).save(file, format="PNG")
            archive.writestr(zipfile.ZipInfo(f"{row:06d}.png"), file.getvalue())
    names = np.array(["Blond_Hair", "Male", "Wearing_Hat", "Smiling"])
    np.savez(
        folder / "attrs.npz", attr_names=names, attrs=np.stack([blond, male, hat, smiling], axis=1).astype(np.int8)
    )


def _write_ask2me(folder: Path, generator: np.random.Generator, n_rows: int) -> None:
    """Write abstracts: 30 words of 300, one word for each attribute that holds, and words that predict the label."""
    y = generator.integers(2, size=n_rows)
    columns = {"breast cancer": generator.integers(2, size=n_rows)}
    breast = columns["breast cancer"]
    for i, name in enumerate(name for name in ATTRIBUTES if name != "breast cancer"):
        agreement = np.where(breast == 1, 0.8, 0.65) if i % 2 == 0 else np.full(n_rows, 0.5)
        columns[name] = np.where(generator.random(n_rows) < agreement, y, 1 - y)
    predictive = agreeing_codes(y, 0.85, 2, generator)
    with (folder / FILE).open("w", encoding="utf-8") as file:
        for row in range(n_rows):
            file.write(json.dumps(_abstract(row, y, columns, predictive, generator)) + "\n")


def _abstract(
    row: int,
    y: NDArray[Any],
    columns: Mapping[str, NDArray[Any]],
    predictive: NDArray[Any],
    generator: np.random.Generator,
) -> dict[str, Any]:
    """Return one object: the text, the label and the 17 attributes in the paper's order."""
    words = [f"Word{i}" for i in generator.integers(40, 300, size=30)]
    words += [f"word{i + 20 * predictive[row]}" for i in generator.integers(20, size=3)]
    words += [name.replace(" ", "-") for name in ATTRIBUTES if columns[name][row]]
    flags = {name: int(columns[name][row]) for name in ATTRIBUTES}
    return {"text": " ".join(generator.permutation(words).tolist()), LABEL: int(y[row]), **flags}


MAKERS: Mapping[str, tuple[Callable[[Path, np.random.Generator, int], None], int]] = MappingProxyType(
    {
        "colored_mnist": (_write_mnist, 1797),
        "beer": (_write_beer, 1200),
        "celeba": (_write_celeba, 600),
        "ask2me": (_write_ask2me, 1200),
        "adult": (write_adult, 900),
        "table": (write_table, 600),
    }
)
