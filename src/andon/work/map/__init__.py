"""Processes many items with one worker per device."""
