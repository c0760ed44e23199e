"""Tables from files: reading, preprocessing, fitting, evaluating and comparing classifiers."""
