"""The decision: which relations change between sites, and how much of them to use."""
