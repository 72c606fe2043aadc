"""`python -m dev.metrics.index` writes the index of conditions: what is known before one loads.

A new figure is a setting only once it is in the index: it is written before the other pages.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from andon.explain.conditions.catalogue import CONDITIONS, DEFAULTS, GROUP_OF, RULES_OF
from andon.explain.conditions.condition import Condition
from andon.explain.conditions.judging import OnEvents, OnReading, OnState

WIDTH = 100

HEAD = '''"""What is known of each condition before it is loaded; written by `make golden`."""

from collections.abc import Mapping

PLACES: Mapping[str, str] = {'''


def index() -> str:
    """The module as text."""
    lit = [one for one in CONDITIONS if one.lights and _is_seen_at_once(one)]
    parts = [
        HEAD,
        *_rows((one.name, _quoted(f"{GROUP_OF[one.name]}.{one.name}")) for one in CONDITIONS),
        "}",
        '"""The file of each, in a folder beside this one."""',
        "POSSIBLE: Mapping[str, tuple[str, ...]] = {",
        *(line for one in lit for line in _tests(one)),
        "}",
        '"""What can light a lamp at the first look, and what must be so for that."""',
        f"PRESENT = ({', '.join(_quoted(one.name) for one in lit if _is_present(one))},)",
        '"""What lights a lamp as long as a reading shows it."""',
        "FIGURES: Mapping[str, float] = {",
        *_rows((name, f"{value!r}") for name, value in DEFAULTS.as_dict().items()),
        "}",
        '"""Every threshold and its default."""',
        "RULES_OF: Mapping[str, str] = {",
        *_rows((name, _quoted(rule)) for name, rule in RULES_OF.items()),
        "}",
        '"""The rule of each main figure: setting the figure to "off" turns its rule off."""',
    ]
    return "\n".join(parts) + "\n"


def _is_seen_at_once(one: Condition) -> bool:
    readings = _is_present(one) or isinstance(one.judged, OnReading | OnState)
    return readings and one.possible_if is not None


def _is_present(one: Condition) -> bool:
    return isinstance(one.judged, OnEvents) and one.judged.present is not None


def _tests(one: Condition) -> Iterator[str]:
    """Yields what must be so: what the kind of its judge needs, and what the judge compares."""
    silent = "answered <= 0" if isinstance(one.judged, OnState) else ""
    found = one.judged.reasons if isinstance(one.judged, OnReading) else None
    reasons = " or ".join(f"throttle has {name}" for name in sorted(found or ()))
    needs = [text for text in (silent, reasons, *(one.possible_if or ())) if text]
    row = f"    {_quoted(one.name)}: ({', '.join(map(_quoted, needs))}{',' * (len(needs) == 1)}),"
    if len(row) <= WIDTH:
        yield row
        return
    yield f"    {_quoted(one.name)}: ("
    for text in needs:
        fits = len(text) + len('        "",') <= WIDTH
        lines = [text] if fits else text.replace(" or ", " or \n").split("\n")
        yield "\n".join(f"        {_quoted(line)}" for line in lines) + ","
    yield "    ),"


def _rows(items: Iterable[tuple[str, str]]) -> list[str]:
    return [f"    {_quoted(name)}: {value}," for name, value in items]


def _quoted(text: str) -> str:
    return f'"{text}"'


if __name__ == "__main__":
    place = Path(__file__).parents[2] / "src/andon/explain/conditions/index.py"
    place.write_text(index(), encoding="utf-8")
