"""The commands, in the groups of the overview: one file each."""
