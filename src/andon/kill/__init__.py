"""Ending processes: which may be ended, in which order, and the signals.

For a person at a terminal (`andon kill`, `andon top`), never for a server.
"""
