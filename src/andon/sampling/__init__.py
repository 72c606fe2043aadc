"""Sampling: readers, the sampler, the bus.

One loop makes one snapshot per tick and publishes it; every part that needs snapshots has a session
with the bus, and a thread of its own to follow it (`follower`). `spawning` starts a reader ahead of
need; a command that only shows something forks it from itself, before it has threads. Until a
reader's first answer, time without a processor does not count against the driver.

A device's place in the machine (NUMA node, bridges, NVLinks) is asked once, and only where it
matters: `Sampler.ask_places` marks the requests to the readers, and each card answers with its next
description.
"""
