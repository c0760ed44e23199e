"""The model arrives at a new site: check it without labels, adapt it without labels, recalibrate it with a few."""
