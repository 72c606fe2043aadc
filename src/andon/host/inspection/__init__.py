"""Gathers what `andon doctor` judges."""
