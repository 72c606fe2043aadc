"""Backends: each reads one vendor's devices."""
