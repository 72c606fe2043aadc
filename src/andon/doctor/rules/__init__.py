"""The checks of `andon doctor`: facts in, findings out."""
