"""Leases: idle, orphaned, used from outside, or leaving memory behind."""
