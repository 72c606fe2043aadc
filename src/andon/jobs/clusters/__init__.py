"""Jobs of clusters: how they are submitted once, listed, followed and shown.

A cluster is called in a thread of its own with a time limit, so that one that hangs delays nothing
else. Its last answer is cached in a file, which lists use for five seconds.
"""
