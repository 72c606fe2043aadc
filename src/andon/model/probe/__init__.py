"""Probes as values, and their JSON."""
