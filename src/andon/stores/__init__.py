"""Where history is stored; each store fulfils the contract of `ports.Store`."""
