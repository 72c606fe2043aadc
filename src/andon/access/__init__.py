"""Access decisions: who may connect, with which key, how often, and how many at once.

What each role may do and see is one table (`roles`). All of it is pure: `web/transport` asks, and
keeps the connections, sessions and the audit log.
"""
