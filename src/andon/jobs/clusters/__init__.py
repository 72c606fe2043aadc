"""Jobs of clusters: how they are submitted once, asked for, followed and shown.

A cluster is asked in a thread of its own with a time limit, so that one that hangs delays nothing
else. Its last answer is kept in a file: whoever lists jobs within five seconds reads that.
"""
