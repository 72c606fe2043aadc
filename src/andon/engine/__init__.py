"""The parts that run: the sampler, its readers and the bus."""
