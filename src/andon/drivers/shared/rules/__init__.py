"""Decisions that several drivers share."""
