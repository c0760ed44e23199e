"""The exact solver for linear models: the least worst-case risk over groups, with a certified gap."""
