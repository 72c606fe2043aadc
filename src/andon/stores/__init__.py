"""The stores for history, alerts, runs and nodes; each fulfils the contract of `ports.Store`."""
