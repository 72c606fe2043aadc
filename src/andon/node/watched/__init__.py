"""A machine that this process watches, by its feed, watcher, leases and history, as a node."""
