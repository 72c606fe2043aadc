"""The node of a machine whose sampler, watcher, leases and history run in this process."""
