"""Carries a function into a spawned child, and its result back."""
