"""The decision: which relations change between sites, and how much of each effect to use."""
