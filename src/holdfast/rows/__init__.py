"""The rows that `fit` gets: kinds of containers, reading and checking."""
