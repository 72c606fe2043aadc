"""Commands about many machines."""
