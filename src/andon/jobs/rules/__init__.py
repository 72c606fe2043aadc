"""The queue's decisions: the state of jobs, which may start, in which order, on which devices."""
