"""Where jobs run: a local process, Docker, Slurm, Ray, Kubernetes. Empty until the queue comes."""
