"""The metrics in other formats than Prometheus' text, and what a receiver's answer means."""
