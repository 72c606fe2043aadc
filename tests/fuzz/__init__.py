"""Seeded fuzzing of every surface that strangers reach; see docs/security.md."""
