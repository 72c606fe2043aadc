"""The server: REST, live events and a page, over one sampler."""
