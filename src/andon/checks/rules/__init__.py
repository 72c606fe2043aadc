"""Decides: which cards may be checked, for how long, what is expected, and what a result means."""
