"""The parts that sample: readers, the sampler, the bus, the recorder."""
