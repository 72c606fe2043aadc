"""A stand-in for a Kubernetes cluster: its API, its controllers, a kubelet that runs commands."""
