"""Processes: what is known of one, how they are related, and how one is signalled.

A process that andon did not start is signalled through its pidfd only (`handles`), so that a pid
that was given to another process meanwhile is never hit.
"""
