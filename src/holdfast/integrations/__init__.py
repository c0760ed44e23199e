"""Parts that other tools load."""
