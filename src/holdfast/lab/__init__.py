"""Experiments: settings in TOML, runs in processes, a record for each run, and the paper's tables and figures.

`experiments` defines runs, `inputs` and `runner` execute one, `store` keeps its record, `execution` runs many, `tuning`
chooses among them; `targets` and `reproduction` compare them with the paper; `theory` is its mathematics on exact
distributions.
"""
