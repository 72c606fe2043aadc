"""What is decided about Kubernetes' objects; no I/O and no clock."""
