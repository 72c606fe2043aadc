"""The parts that grant, follow, list and end leases."""
