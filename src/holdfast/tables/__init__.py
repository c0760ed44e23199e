"""Tables in files and data frames: read, preprocess, fit, evaluate and compare."""
