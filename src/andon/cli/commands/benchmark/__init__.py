"""`andon benchmark`."""
