"""Where this user's and this machine's state is kept.

What belongs to a machine is kept apart from other machines that share the home folder.
"""
