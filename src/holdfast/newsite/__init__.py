"""A model at a new site: check it and adapt it without labels, or recalibrate it with a few labels."""
