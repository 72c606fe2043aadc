"""Translates submissions into Slurm's options, and Slurm's output into andon's values."""
