"""Where devices are in the machine, as values."""
