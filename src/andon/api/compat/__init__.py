"""The names andon keeps from the systems it replaces."""
