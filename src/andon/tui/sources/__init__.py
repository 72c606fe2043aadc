"""Where `andon top` gets what it shows: devices, the past, leases, alerts, runs and jobs."""
