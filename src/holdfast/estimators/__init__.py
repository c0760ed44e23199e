"""The estimators: one file for each method."""
