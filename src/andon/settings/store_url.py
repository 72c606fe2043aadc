"""Parses the URL of a store: its scheme, its location, and a form without the password."""

import re
from typing import NoReturn
from urllib.parse import unquote

from msgspec import Struct

from andon.errors import Invalid
from andon.units import printable

MEMORY = "memory:"
LONGEST = 4096
LONGEST_SCHEME = 40
EXAMPLES = 'for example "sqlite:///data/history.db", "postgresql:///andon", or "memory:"'

# A single letter is a drive of Windows, not a scheme.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# A password may contain / and @ although it should not: it ends at the last @.
_PASSWORD = re.compile(r"(//[^/:@]*:).*@", re.DOTALL)
_OPAQUE_PASSWORD = re.compile(r"(?!\s*sqlite:)(\s*[A-Za-z][\w+.-]+:/?[^/:@]*:).*@", re.DOTALL)

# What may be a password before a host that was forgotten; several hosts with ports are none.
_NO_HOST = re.compile(
    r"(?!\s*sqlite:)(\s*[A-Za-z][\w+.-]+://[^/:@\[]*:)"
    r"(?!\d{1,5}(?:,[^/:@,]*(?::\d{1,5})?)*(?:[/?#]|$))[^@]*$"
)
_DATABASE = re.compile(r"//[^/?#]*/[^/?#]+|//.*[?&](?:dbname|service)=[^&]")


class StoreUrl(Struct, frozen=True):
    """Where history and alerts are stored. `str` and `repr` do not show a password."""

    scheme: str
    location: str

    @property
    def text(self) -> str:
        """The whole URL, with its password."""
        return f"{self.scheme}:{self.location}"

    def __str__(self) -> str:
        return redacted(self.text)

    def __repr__(self) -> str:
        return f"StoreUrl(scheme={self.scheme!r})"


def parse_store_url(text: str) -> StoreUrl:
    """Parses a URL, or the plain path of an SQLite file, or `:memory:`. Raises Invalid."""
    if not text.strip():
        raise Invalid("the store's URL is empty", hint=EXAMPLES)
    if len(text) > LONGEST:
        reason = f"{_shown(text)}… is too long for a path or a URL: more than {LONGEST}"
        raise Invalid(f"{reason} characters", hint=EXAMPLES)
    if not text.isprintable():
        raise Invalid(f"{_shown(text)} contains control characters", hint=EXAMPLES)
    if text != text.strip():
        raise Invalid(f"{_shown(text)} begins or ends with a space", hint="remove it")
    if text == ":memory:":
        return StoreUrl("memory", "")
    found = _SCHEME.fullmatch(text)
    url = url_of_file(text) if found is None else StoreUrl(found[1].lower(), found[2])
    _CHECKS.get(url.scheme, _check_other)(url)
    return url


def url_of_file(path: str) -> StoreUrl:
    """Returns the URL of an SQLite file."""
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02X}")
    return StoreUrl("sqlite", f"/{path.lstrip('/')}" if path.startswith("//") else path)


def file_of(url: StoreUrl) -> str:
    """The path that a `sqlite:` URL names; relative to the current folder unless it has a slash."""
    if "?" in url.location or "#" in url.location:
        raise Invalid(f"{_shown(url.text)} has options", hint="write ? as %3F and # as %23")
    path = _without_host(url)
    if _BAD_ESCAPE.search(path):
        raise Invalid(f"{_shown(url.text)} has a % that is not an escape", hint="write % as %25")
    try:
        path = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise Invalid(f"{_shown(url.text)} is not UTF-8", hint="escape UTF-8 bytes") from None
    if not path.strip("/"):
        raise Invalid(f"{_shown(url.text)} names no file", hint=EXAMPLES)
    if path == ":memory:":
        raise Invalid(f"{_shown(url.text)} names no file", hint='in memory: "memory:"')
    return path


def redacted(text: str) -> str:
    """Returns the URL as it may be printed, whether it is valid or not:
    `postgresql://ada:***@host/db`.

    Of a very long one only the beginning: searching all of it for a password would take long.
    """
    from andon.model.redaction import HIDDEN, redact_text

    if len(text) > LONGEST:
        head, colon, _ = text.partition(":")
        return f"{head[:LONGEST_SCHEME]}:{HIDDEN}" if colon else head[:LONGEST_SCHEME]
    text = _PASSWORD.sub(rf"\1{HIDDEN}@", text)
    text = _OPAQUE_PASSWORD.sub(rf"\1{HIDDEN}@", text)
    text = _NO_HOST.sub(rf"\1{HIDDEN}", text)
    return redact_text(text)


def _without_host(url: StoreUrl) -> str:
    if not url.location.startswith("//"):
        return url.location
    host, slash, path = url.location[2:].partition("/")
    if host or not slash:
        raise Invalid(
            f"{_shown(url.text)} names a host",
            hint="an absolute path has three slashes: sqlite:///data/history.db",
        )
    return "/" + path.lstrip("/")  # four slashes are common for an absolute path elsewhere


def _check_sqlite(url: StoreUrl) -> None:
    path = file_of(url)
    if not path.isprintable() or path != path.strip():
        raise Invalid(f"{_shown(url.text)} is not a path", hint=EXAMPLES)


def _check_memory(url: StoreUrl) -> None:
    if url.location.strip("/"):
        raise Invalid(f"{_shown(url.text)} has a location", hint='write "memory:"')


def _check_other(url: StoreUrl) -> None:
    if re.search(r"\s", url.text):
        raise Invalid(f"{_shown(url.text)} contains a space", hint="write it as %20")
    if not url.location.strip("/"):
        raise Invalid(f"{_shown(url.text)} has no location", hint=EXAMPLES)


def _check_postgresql(url: StoreUrl) -> None:
    """Raises Invalid for a URL with a password, which files, process lists and logs would show, or
    without a database."""
    _check_other(url)
    if _PASSWORD.search(url.text) or redacted(url.text) != url.text:
        raise Invalid(
            f"{_shown(url.text)} has a password, which a URL should not show",
            hint="use ~/.pgpass, a service (?service=NAME) or PGPASSWORD",
        )
    if not _DATABASE.match(url.location):
        raise Invalid(
            f"{_shown(url.text)} names no database",
            hint='for example "postgresql:///andon" here, "postgresql://host/andon" elsewhere',
        )


def _refuse_file(url: StoreUrl) -> NoReturn:
    raise Invalid(f"{_shown(url.text)} names no kind of store", hint="write sqlite: for file:")


_CHECKS = {
    "file": _refuse_file,
    "memory": _check_memory,
    "postgresql": _check_postgresql,
    "sqlite": _check_sqlite,
}


def _shown(text: str) -> str:
    return f'"{printable(redacted(text))[:80]}"'
