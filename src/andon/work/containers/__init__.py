"""Commands in containers: created for a lease, followed, found again, noted and removed.

What differs between Docker and Podman is in `andon.engines`.
"""
