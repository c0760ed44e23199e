"""Experiments: settings in TOML, runs by processes, one record each, and the paper's tables and figures by name.

config and grids say what runs there are, runner makes one, store keeps it, executing makes many; targets knows the
paper.
"""
