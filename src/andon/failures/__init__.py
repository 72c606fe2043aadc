"""What parts that keep running share: how failures are retried, logged, and kept from others."""
