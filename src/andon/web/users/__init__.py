"""The jobs and runs of other users, read for root's server by a process for each user.

Such a process becomes that user for good and answers questions; its answers are hostile input.
"""
