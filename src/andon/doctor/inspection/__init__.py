"""Gathers the facts that `andon doctor` checks."""
