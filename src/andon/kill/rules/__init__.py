"""Which processes may be ended, in which order, and every message about it."""
