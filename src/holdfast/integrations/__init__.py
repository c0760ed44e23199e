"""Parts for other tools; none of them is imported before it is used."""
