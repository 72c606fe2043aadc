"""The queue as it runs: its folder, its dispatcher, and the supervisors of its jobs."""
