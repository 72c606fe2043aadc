"""The jobs and runs of other users, read for root's server by a process for each user."""
