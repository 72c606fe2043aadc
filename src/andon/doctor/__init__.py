"""What is wrong with this machine, and whether readings are plausible."""
