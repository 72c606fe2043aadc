"""The command line; each command is loaded when it is called."""
