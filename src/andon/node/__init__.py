"""The machine that a command is about: `local`, `remote` behind a server, or `ssh` (`port` has what
they answer). The machine of a server: `watched`, and `seen` by a caller. And how this machine's
server is found, verified and asked.

A command that shows something once reads it from the server at its local socket (`local_server`),
or adds what the server knows of silent devices to its own reading. One that hands out devices asks
which are broken (`broken_devices`), and continues without an answer.
"""
