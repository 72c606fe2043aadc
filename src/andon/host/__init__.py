"""What the operating system knows: processes and the node's own values."""
