"""Where history is kept; each store keeps the contract of `ports.Store`."""
