"""How other processes find, verify and ask this machine's andon server.

A command that shows devices once takes the server's look from a local socket (`look`), or adds what
the server knows of silent devices to its own reading. One that hands out devices asks which are
broken (`broken_devices`), and continues without an answer.
"""
