"""Ends idle leases where root's policy says so, after two warnings."""
