"""The state of a device or its driver: lost, not responding, asleep, unreadable."""
