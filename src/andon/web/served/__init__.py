"""The node that routes ask, as one caller may see it."""
