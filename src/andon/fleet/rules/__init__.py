"""Reports of nodes as values, and how a hub judges them."""
