"""Measures a card with nothing but its driver, and says whether it is healthy and fast enough.

A process per card (`child.py`) computes, copies and compares; `session.py` starts and watches it.
"""
