"""Measures a loop by its steps."""
