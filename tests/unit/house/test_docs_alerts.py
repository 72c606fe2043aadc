"""The page about alerts: its table is the catalogue's, its picture is a golden one."""

import os
import re
from itertools import groupby

from andon.events.rules.xids import XIDS
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "alerts.md"


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
    begin = "<!-- generated: xids -->"
    table = f"{begin}\n\n{xid_table()}\n\n<!-- end -->"
    return re.sub(f"{begin}.*?<!-- end -->", lambda _: table, page, flags=re.DOTALL)


def test_the_golden_table_is_the_catalogue_s() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        page = written(page)
        PAGE.write_text(page, encoding="utf-8")
    assert page == written(page), "make golden, and look"
    assert "| 79 | critical |" in page


def test_the_picture_is_a_golden_one() -> None:
    picture = re.search(r"```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    golden = (REPOSITORY / "tests/golden/alerts-80.txt").read_text(encoding="utf-8")
    assert picture is not None
    assert picture[1] in golden
