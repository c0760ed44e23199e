"""The estimators: PI and what it is compared with, each in one file."""
