"""Benchmarks and comparisons with other tools: one run, one machine, with ratios."""
