"""The parts that grant, track, list and end leases."""
