"""What devices there are, in which state, how often they are read, and whether a reading can be."""
