"""Runs the trials of a probe, and keeps what it found."""
