"""How other processes find and verify this machine's andon server."""
