"""One vendor, one file: each reads one vendor's devices."""
