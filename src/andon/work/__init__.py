"""The parts that start a command, watch it and record it, here or in a container.

A command is bound to CPUs by the thread that starts it: no code runs between fork and exec.
"""
