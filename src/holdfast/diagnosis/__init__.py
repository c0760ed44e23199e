"""What is known about a table before and after models are tried: whether the data is sound, and clinical measures."""
