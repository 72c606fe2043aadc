"""The demo's simulated machine: its history, alerts, leases, jobs and runs.

What happens on it is decided in `drivers/sim/rules/demo.py`. This package writes it where a real
machine writes it, in a state folder of its own: the store, the index of runs, the lease book and
the views of jobs.
"""
