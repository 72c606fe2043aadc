"""A strict reader of Prometheus' text format 0.0.4, for tests; it forgives nothing."""

import re
from dataclasses import dataclass, field

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
VALUE = r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf)|NaN"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(?:,|$)')
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\]|\\[\\n])*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge)")
SERIES = re.compile(rf"({NAME})(?:\{{(.*)\}})? ({VALUE})")
PLAIN = {r"\\": "\\", r"\n": "\n", r"\"": '"'}

Labels = frozenset[tuple[str, str]]


@dataclass
class Family:
    """One metric: its help, its kind, and its series."""

    help: str
    kind: str = ""
    series: dict[Labels, float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    """The families of a text; an AssertionError says what the format does not allow."""
    assert text.endswith("\n"), "the last line has no end"
    families: dict[str, Family] = {}
    name = ""
    for line in text[:-1].split("\n"):
        if heading := HELP.fullmatch(line):
            name = heading[1]
            assert name not in families, f"{name} comes twice"
            families[name] = Family(heading[2])
        elif kind := TYPE.fullmatch(line):
            assert kind[1] == name, f"a type without its help: {line}"
            assert not families[name].series, "the type comes too late"
            assert not families[name].kind, "a second type"
            families[name].kind = kind[2]
        else:
            _series(line, name, families)
    assert all(family.series for family in families.values()), "a heading without series"
    return families


def _series(line: str, name: str, families: dict[str, Family]) -> None:
    found = SERIES.fullmatch(line)
    assert found, f"no series: {line!r}"
    assert found[1] == name, f"not among its own: {line!r}"
    labels = _labels(found[2] or "")
    assert labels not in families[name].series, f"a second time: {line!r}"
    families[name].series[labels] = float(found[3])


def _labels(text: str) -> Labels:
    out: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found, f"no label: {text[at:]!r}"
        assert found[1] not in out, f"{found[1]} comes twice"
        out[found[1]] = re.sub(r"\\.", lambda escape: PLAIN[escape[0]], found[2])
        at = found.end()
    return frozenset(out.items())
