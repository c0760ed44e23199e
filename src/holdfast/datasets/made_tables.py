"""Small made tables in the formats of `adult` and `table`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from holdfast.datasets.coloring import agreeing_codes

TOML = 'file = "table.csv"\nlabel = "diagnosis"\nenvironment = "site"\nattributes = ["scanner"]\n'


def write_adult(folder: Path, generator: np.random.Generator, n_rows: int) -> None:
    """Write adult.data and adult.test: age and education tell the income, hours tell it more for men."""
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
