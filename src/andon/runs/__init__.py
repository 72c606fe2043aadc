"""Records of runs: written, read, found and followed.

A record is a file of lines. It is read by its ends; the index of runs follows from the records and
can be rebuilt from them.
"""
