"""Where jobs run: local process, Docker, Slurm, Ray, Kubernetes. Empty until jobs are added."""
