"""JSON as a command prints it."""

from andon.model import wire


def as_json_text(value: wire.Json, live: bool) -> str:
    """One line for a program, indented for a person."""
    return wire.dumps(value, indented=live) + "\n"
