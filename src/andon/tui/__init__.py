"""`andon top`, the interactive view. Empty until it comes."""
