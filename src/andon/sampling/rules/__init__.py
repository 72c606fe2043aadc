"""Which devices there are, their state, how often they are read, and which readings are valid."""
