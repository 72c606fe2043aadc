"""Text from elsewhere, made safe for a screen or an id."""

_SPACES = str.maketrans("\t\n\r", "   ")


def printable(text: str) -> str:
    """Line breaks and tabs become spaces, other control characters visible escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text.translate(_SPACES))


def plain(text: str, longest: int) -> str:
    """At most so many characters; one that cannot be printed is a question mark."""
    return "".join(c if c.isprintable() else "?" for c in text)[:longest]
