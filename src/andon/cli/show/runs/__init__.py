"""Runs as tables and texts."""
