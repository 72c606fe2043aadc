"""The port at which an andon server is expected."""

USUAL_PORT = 26366  # A-N-D-O-N on a phone
PORT_VARIABLE = "ANDON_PORT"
