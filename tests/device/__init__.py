"""Checks of andon on a real GPU, idle and under load; runs with pytest or without."""
