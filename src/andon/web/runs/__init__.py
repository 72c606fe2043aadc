"""The runs that a server shows."""
