"""`andon.alerts/1`: what goes out comes back, and its shape is held by a golden file."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules import listing
from andon.errors import Invalid
from andon.model.alert import (
    Acknowledgement,
    Alert,
    AlertList,
    Level,
    Notice,
    NoticeKind,
    Phase,
    Silence,
)
from andon.model.codec import LATEST, document, read_document, read_valid, to_json
from andon.model.event import Party
from tests.support.rows import rows

AT = 1_767_614_400.0
FULL = Alert(
    id="thermal@GPU-3#1767614000",
    rule="thermal",
    subject="GPU-3",
    level=Level.WARNING,
    state=Phase.FIRING,
    since=AT - 400,
    where="GPU 3 (NVIDIA H200)",
    device=3,
    severity=58,
    fired=AT - 340,
    no_data_since=AT - 5,
    value=86,
    threshold=80.0,
    limit=89,
    unit="celsius",
    message="GPU 3 is too hot: 86 °C (alert above 80 °C, slows down at 89 °C)",
    advice="Check the cooling.",
    affected=(Party(4101, "alice", "python", "python train.py", AT - 4260),),
    acknowledged=Acknowledgement(AT - 100, "bob", "the fan is on its way"),
    silenced_until=AT + 7200,
    inhibited_by="device_lost@GPU-3#1767614390",
    notified=1,
    last_notified=AT - 340,
    evidence={"slowdown_in_seconds": 720},
)
UNHANDLED = replace(FULL, acknowledged=None, silenced_until=None)
PLAIN = Alert("store@store#1767614399", "store", "store", Level.INFO, Phase.PENDING, AT - 1)
SILENCE = Silence("s1", AT + 7200, "thermal", "GPU-3", "bob", "maintenance", AT)
NOTICE = Notice("thermal@GPU-3#1767614000/1-firing", NoticeKind.FIRING, FULL, AT, "node17", True)

NUMBERS = st.floats(-(2.0**64), 2.0**64)
TIMES = st.floats(0, LATEST)
PARTIES = st.builds(Party, st.integers(1, 2**22), *[st.none() | st.text()] * 3, st.none() | TIMES)
ALERTS = st.builds(
    Alert,
    id=st.text(min_size=1).filter(str.isprintable),
    **{name: st.text() for name in ("rule", "subject", "where", "unit", "message", "advice")},
    level=st.sampled_from(Level),
    state=st.sampled_from(Phase),
    since=TIMES,
    device=st.none() | st.integers(0, 99),
    severity=st.integers(0, 100),
    **{name: st.none() | NUMBERS for name in ("value", "threshold", "limit")},
    **{
        name: st.none() | TIMES
        for name in ("fired", "resolved", "no_data_since", "silenced_until", "last_notified")
    },
    affected=st.lists(PARTIES, max_size=3).map(tuple),
    acknowledged=st.none() | st.builds(Acknowledgement, TIMES, st.text(), st.text()),
    inhibited_by=st.none() | st.text(),
    notified=st.integers(0, 99),
    evidence=st.dictionaries(st.text(), NUMBERS | st.text(), max_size=3),
)  # fmt: skip


def over_the_wire(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(value))
    return found


@given(ALERTS)
def test_any_alert_comes_back_as_it_went(alert: Alert) -> None:
    assert read_valid(Alert, over_the_wire(to_json(alert))) == alert


@given(ALERTS, st.sampled_from(NoticeKind), TIMES, st.booleans())
def test_any_notice_comes_back_as_it_went(
    alert: Alert, kind: NoticeKind, at: float, simulated: bool
) -> None:
    notice = Notice("n", kind, alert, at, "node", simulated)
    assert read_valid(Notice, over_the_wire(to_json(notice))) == notice


IDS = st.from_regex(r"[0-9a-f]{1,64}", fullmatch=True)


@given(st.builds(Silence, IDS, TIMES, *[st.none() | st.text()] * 2, st.text(), st.text(),
                 TIMES))  # fmt: skip
def test_any_silence_comes_back_as_it_went(silence: Silence) -> None:
    assert read_valid(Silence, over_the_wire(to_json(silence))) == silence


def test_the_golden_list_of_alerts(golden: Callable[[str, str], None]) -> None:
    out = AlertList("node17", AT, False, Level.WARNING, (FULL, PLAIN), (SILENCE,))
    golden("alerts-1.json", json.dumps(document(out), indent=2, ensure_ascii=False) + "\n")
    assert read_document(AlertList, over_the_wire(document(out))) == out


def test_the_golden_notice(golden: Callable[[str, str], None]) -> None:
    golden("notice.json", json.dumps(to_json(NOTICE), indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize(
    ("alerts", "worst"),
    [([], None), ([PLAIN], None), ([FULL, PLAIN], None), ([UNHANDLED, PLAIN], "warning")],
)
def test_the_worst_level_is_of_what_is_counted(alerts: list[Alert], worst: str | None) -> None:
    assert listing.worst(alerts) == worst


@rows(
    "broken",
    [
        {"level": "fatal"},
        {"since": None},
        {"since": "now"},
        {"value": float("inf")},
        {"affected": [{"user": "alice"}]},
        {"message": 7},
        {"acknowledged": []},
        {"evidence": 3},
    ],
)
def test_nonsense_is_refused_with_its_place(broken: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        read_valid(Alert, {**to_json(FULL), **broken})


def test_another_schema_is_refused() -> None:
    with pytest.raises(Invalid, match=r"andon\.alerts/2"):
        read_document(AlertList, {"schema": "andon.alerts/2"})
