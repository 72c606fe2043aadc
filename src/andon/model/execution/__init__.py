"""A command to execute, and the options of its container."""
