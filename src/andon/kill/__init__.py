"""Ending processes: which may be ended, in which order, and the signals.

For a person at a terminal (`kill`, `top`, `release`), never for a server.
"""
