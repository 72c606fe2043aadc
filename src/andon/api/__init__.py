"""The Python API: what `from andon import …` gives."""
