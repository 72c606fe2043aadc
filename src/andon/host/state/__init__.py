"""The folders in which this user's and this machine's state is stored.

What belongs to a machine is separate from that of other machines that share the home folder.
"""
