"""The exact solver for linear models: least worst-case risk over groups, with a certified gap."""
