"""Commands about andon itself."""
