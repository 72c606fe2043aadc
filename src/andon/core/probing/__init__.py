"""Finds the largest size that fits by trying."""
