"""Tables in files and data frames: reading, preprocessing, fitting, evaluating and comparing classifiers."""
