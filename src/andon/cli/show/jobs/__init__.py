"""Jobs as text."""
