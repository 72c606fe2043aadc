"""The memory of this process and of the machine."""
