"""Jobs: as they were submitted (`spec`), as a scan finds them and as they are shown (`facts`)."""

LOCAL = "here"
"""This machine, where the name of a cluster may stand."""
