"""Simulated devices: how they behave, what runs on them, and what goes wrong."""
