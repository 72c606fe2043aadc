"""A real Ray of two nodes on this machine: `make ray`."""
