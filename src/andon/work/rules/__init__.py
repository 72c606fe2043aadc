"""Decisions about work: CPUs, maps and probes."""
