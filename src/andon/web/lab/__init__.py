"""A simulated lab on the board: its history, alerts, leases, jobs and runs, for `andon demo`.

What happens in the lab is decided in `drivers/sim/rules/demo.py`. Here it goes through the same
doors as on a real machine, into a state folder of its own: the store, the index of runs, the lease
book and the views of jobs.
"""
