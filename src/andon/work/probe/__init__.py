"""Runs the trials of a probe, and keeps what it found.

After a trial it waits until the memory is back, so that one trial does not shrink the next.
"""
