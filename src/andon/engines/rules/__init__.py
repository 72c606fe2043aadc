"""Parses the answers of a container engine."""
