"""Working through many items: what they are, which is next, and what became of them."""
