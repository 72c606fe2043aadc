"""Retrying, logging and containing failures, for parts that keep running.

An unexpected error of each kind is logged once a minute at most, with a count.
"""
