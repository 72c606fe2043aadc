"""Where `andon top` gets what it shows: devices, the past, leases, alerts, runs and jobs.

In threads of their own, so that no driver, server or disk delays a key.
"""
