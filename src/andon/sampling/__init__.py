"""Sampling: readers, the sampler, the bus, the recorder."""
