"""Frozen values shared by all layers; they do no I/O and read no clock."""
