"""How a device is used: idle, starved, shared."""
