"""`andon top`: the interactive view."""
