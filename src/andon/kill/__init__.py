"""Ending processes: which may be ended, in which order, and the signals."""
