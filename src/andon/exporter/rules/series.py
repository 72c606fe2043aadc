"""Parses the rendered metrics, series by series, for other formats.

What is sent is then what a scrape would get, value for value, and a series costs little: all that
is known before its value, its name and labels, is read once and looked up at every tick.
"""

import re
from collections.abc import Iterator

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_PLAIN = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}

Labels = dict[str, str]


def samples(text: str) -> Iterator[tuple[str, str]]:
    """Yields each series as it is written, and its value: (`name{a="b"}`, `1.5`)."""
    for line in text.split("\n"):
        if line and line[0] != "#":
            start, _, value = line.rpartition(" ")
            yield start, value


def name_and_labels(start: str) -> tuple[str, Labels]:
    """Returns the name and labels of a series as it is written."""
    name, _, inside = start.partition("{")
    return name, {
        key: re.sub(r"\\.", lambda found: _PLAIN[found[0]], value)
        for key, value in _LABEL.findall(inside)
    }
