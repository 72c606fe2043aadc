"""What parts that keep running share: how failures are retried, logged, and kept from others.

An unexpected error of each kind is logged once a minute at most, with a count.
"""
