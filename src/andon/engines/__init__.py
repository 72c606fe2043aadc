"""Container engines: Docker and Podman.

An engine makes work ready, starts it through a client command, finds it again by its label,
signals and removes it. The engine's command line is used and not its socket: it knows contexts,
credentials, rootless engines and terminals, is the same for Podman, and a hung engine costs a child
process with a time limit.
"""
