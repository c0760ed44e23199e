"""PI with the paper's CNN as a user calls it, 8,000 rows and one epoch for each network, against a plain torch program.

    python benchmarks/user_fit.py [--quick] [--repetitions 5] [--epochs 1] [--rows 8000] [--data DIR] [--record DIR]

Both sides are those of `whole_fit.py`. With so few steps, what happens once weighs most: the judges' answers about all
rows, evaluations, the risks of the groups in the end.
"""

from __future__ import annotations

import sys

from whole_fit import main

if __name__ == "__main__":
    sys.exit(main(__doc__, n_epochs=1, n_rows=8000))
