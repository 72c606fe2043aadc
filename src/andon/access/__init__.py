"""Access decisions: who may connect, with which key, how often, and how many at once."""
