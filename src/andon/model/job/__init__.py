"""Jobs: as they were submitted (`spec`), as a scan finds them and as they are shown (`facts`)."""

LOCAL = "here"
"""This machine, where the name of a cluster may stand."""
SEPARATOR = ":"
"""Between the name of a cluster and the id of a job: lab:4711."""
SSH = "ssh"
HOST = f"{SSH}{SEPARATOR}"
"""Begins the name of a host's queue, ssh:n18, and of several hosts: ssh:n17,n18, ssh:@lab."""


def is_host(name: str) -> bool:
    """Whether this is the name of hosts that are reached over SSH, or of a job there."""
    return name.startswith(HOST)
