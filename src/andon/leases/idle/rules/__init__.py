"""Decides which leases are idle, and what is due for them."""
