"""How simulated devices behave, what runs on them, and what goes wrong."""
