"""The names that andon keeps from the systems it succeeds."""
