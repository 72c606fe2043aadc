"""A node as one caller may see it: the one place where rights are applied, whichever node it is."""
