"""`python -m dev.metrics.index` writes the index of conditions: what is known before one loads.

A new figure is a setting only once it is in the index: it is written before the other pages.
"""

from collections.abc import Iterable
from pathlib import Path

from andon.explain.conditions import triggers
from andon.explain.conditions.catalogue import CONDITIONS, DEFAULTS, GROUP_OF, RULES_OF
from andon.explain.conditions.condition import Condition
from andon.explain.conditions.judging import OnEvents, OnReading, OnState

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
        "LIT: Mapping[str, str | None] = {",
        *_rows((one.name, _trigger(one)) for one in lit),
        "}",
        '"""What can light a lamp at the first look, and its trigger."""',
        "THROTTLED: Mapping[str, str] = {",
        *_rows((one.name, _quoted(found)) for one in lit if (found := _reasons(one))),
        "}",
        '"""The throttle reasons of which one must be active, or unknown."""',
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
    return _is_present(one) or isinstance(one.judged, OnReading | OnState)


def _is_present(one: Condition) -> bool:
    return isinstance(one.judged, OnEvents) and one.judged.present is not None


def _trigger(one: Condition) -> str:
    test = one.lit_if
    if test is None and isinstance(one.judged, OnState):
        test = triggers.silent
    return "None" if test is None else _quoted(test.__name__)


def _reasons(one: Condition) -> str:
    found = one.judged.reasons if isinstance(one.judged, OnReading) else None
    return " ".join(sorted(found or ()))


def _rows(items: Iterable[tuple[str, str]]) -> list[str]:
    return [f"    {_quoted(name)}: {value}," for name, value in items]


def _quoted(text: str) -> str:
    return f'"{text}"'


if __name__ == "__main__":
    place = Path(__file__).parents[2] / "src/andon/explain/conditions/index.py"
    place.write_text(index(), encoding="utf-8")
