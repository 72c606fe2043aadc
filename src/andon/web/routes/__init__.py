"""The routes: each a few lines over the answers."""
