"""The andon server of this machine, seen from other processes: where it is, and whether it is the one."""
