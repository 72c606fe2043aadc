"""The parts that start a command, watch it and record it."""
