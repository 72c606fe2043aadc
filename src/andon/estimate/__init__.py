"""How much GPU memory a model needs, and which GPUs it fits on.

`files` reads the headers of a model's files, bounded, from regular files only; `rules` does all
else.
"""
