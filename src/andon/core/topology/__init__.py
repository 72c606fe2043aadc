"""How devices are linked, and the CPUs next to them."""
