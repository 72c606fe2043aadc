"""The page about alerts: its tables are the catalogue's, its picture is a golden one."""

import os
import re
from itertools import groupby

from andon.core.conditions.catalogue import DEFAULTS, RULES
from andon.core.conditions.condition import Condition
from andon.core.conditions.stated import stated
from andon.core.events.xids import XIDS
from andon.units import human_seconds
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "alerts.md"


def rule_table() -> str:
    lines = ["| rule | what | levels | why |", "|---|---|---|---|"]
    rules = [stated(rule, DEFAULTS) for rule in RULES]
    lines += [f"| `{r.name}` | {r.title} | {_levels(r)} | {r.why} |" for r in rules]
    return "\n".join(lines)


def _levels(rule: Condition) -> str:
    steps = [
        f"{rung.level}{'' if rung.notify else ' (shown, not sent)'}: {rung.condition}, "
        + (f"for {human_seconds(rung.for_seconds)}" if rung.for_seconds else "at once")
        for rung in rule.rungs
    ]
    return "<br>".join(steps)


def xid_table() -> str:
    lines = ["| Xid | level | what it means | what to do |", "|---|---|---|---|"]
    for xid, codes in groupby(sorted(XIDS, key=_place), key=lambda code: XIDS[code]):
        numbers = ", ".join(str(code) for code in codes)
        lines.append(f"| {numbers} | {xid.level} | {xid.meaning} | {xid.advice('N')} |")
    detail = "the driver's recovery action: reset, drain or reboot, as it says itself"
    return "\n".join([*lines, f"| 154 | by what it asks | {detail} | what it asks for |"])


def _place(code: int) -> tuple[int, str, int]:
    """The worst first, and those that mean the same beside each other."""
    xid = XIDS[code]
    alike = min(other for other in XIDS if XIDS[other] == xid)
    return -xid.level.rank, f"{alike:04}", code


def written(page: str) -> str:
    for name, table in (("rules", rule_table()), ("xids", xid_table())):
        begin = f"<!-- {name}: written by the tests -->"
        page = re.sub(
            f"{begin}.*?<!-- end -->",
            lambda _, b=begin, t=table: f"{b}\n\n{t}\n\n<!-- end -->",  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
    return page


def test_the_golden_tables_are_the_catalogues() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        page = written(page)
        PAGE.write_text(page, encoding="utf-8")
    assert page == written(page), "make golden, and look"
    assert all(f"`{rule.name}`" in page for rule in RULES)


def test_the_picture_is_a_golden_one() -> None:
    picture = re.search(r"```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    golden = (REPOSITORY / "tests/golden/alerts-80.txt").read_text(encoding="utf-8")
    assert picture is not None
    assert picture[1] in golden
