"""Ending processes: held by a pidfd from the question to the signal."""
