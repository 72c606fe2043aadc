"""The site of the docs: what its reference is made of, and how its pages are put together."""
