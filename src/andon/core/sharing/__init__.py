"""Which devices a request can have, when, and who holds the others."""
