"""Where a command is executed: what it is given, and what an engine's answers mean."""
