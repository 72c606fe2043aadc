"""Comparisons with other tools: everything in one run, on one machine, with the ratios printed."""
