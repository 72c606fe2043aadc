"""Users of this machine: names, accounts, namespaces, and who is at a local socket."""
