"""Frozen values that cross borders; they do no I/O and read no clock."""
