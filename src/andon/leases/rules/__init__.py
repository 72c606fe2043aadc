"""Which devices a request can get, when, and who holds the others."""
