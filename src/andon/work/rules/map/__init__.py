"""Processing many items: what they are, which is next, and how they ended."""
