"""Many machines in one place: what a node reports to a hub, and what a hub derives from it."""
