"""Parsers of what the operating system says."""
