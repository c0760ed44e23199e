"""The diagnosis of a table: checks of the data, leave-one-site-out, remedies, clinical measures and the advice."""
