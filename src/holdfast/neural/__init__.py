"""Networks: batches, objectives, one training loop and a scikit-learn estimator. Needs the extra `neural`."""
