"""Processes many items with one worker per device.

Places are added and removed as leases come and go; each gets a command per item, or a long-running
worker, here or in a container.
"""
