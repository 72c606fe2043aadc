"""The parts that grant, track, list and end leases.

`rules.verdict` is the one answer to what is available, for every view. A server follows the book in
one thread (`tracker`), and the sampler writes the result into its next snapshot, so that every
session sees the same. Root's limits per user come from a file; a server counts recent GPU hours.
"""
