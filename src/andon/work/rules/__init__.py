"""Decisions about work: containers, CPUs, maps and probes."""
