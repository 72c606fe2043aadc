"""How hot a device is, and what cools it."""
