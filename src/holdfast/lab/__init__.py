"""Experiments: settings in TOML, runs in processes, one record for each, and the paper's tables and figures by name.

`experiments` defines runs, `inputs` and `runner` execute one, `store` keeps its record, `execution` runs many, `tuning`
chooses among them; `targets` and `reproduction` compare them with the paper; `theory` is its mathematics on exact
distributions.
"""
