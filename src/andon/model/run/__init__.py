"""The record of a run as values, and its JSON."""
