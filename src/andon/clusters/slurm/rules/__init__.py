"""What a job is in Slurm's words, and what Slurm's words mean."""
