"""Fits that several packages share: Newton's method, folds, leave-one-environment-out, calibration."""
