"""The queue's decisions: how jobs stand, which may start, in which order, and on which devices."""
