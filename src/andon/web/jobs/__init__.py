"""The jobs that a server shows."""
