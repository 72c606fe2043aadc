"""Machines as `andon doctor` finds them, and what is wrong with each."""
