"""This machine's andon server, as other processes find it and verify it."""
