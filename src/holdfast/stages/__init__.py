"""The three stages: predict, partition, interpolate; they do not know one another."""
