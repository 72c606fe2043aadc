"""For a program's own loops: callbacks on alerts, and loops that pause."""
