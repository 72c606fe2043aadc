"""A stand-in for a Kubernetes cluster: its API, its controllers and a kubelet that runs commands."""
