"""Shared by parts that keep running: how failures are retried, logged, and contained.

An unexpected error of each kind is logged once a minute at most, with a count.
"""
