"""Finds the largest size that fits, by trial."""
