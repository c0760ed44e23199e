"""Runs, their settings and records: whatever compares methods."""
