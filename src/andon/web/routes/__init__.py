"""The REST routes: each a few lines that call the payloads."""
