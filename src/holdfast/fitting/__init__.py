"""Fits that several packages share, each written once."""
