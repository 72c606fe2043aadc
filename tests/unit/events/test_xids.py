"""What an Xid means, and who has to act."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.events.rules.xids import XIDS, explain
from andon.model.alert import Level
from tests.support.rows import rows

CRITICAL = (46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158, 171, 172)
WARNING = (63, 92, 94)
APPLICATION = (8, 11, 13, 25, 31, 32, 43, 45, 69, 80)


@pytest.mark.parametrize(
    ("codes", "level"),
    [(CRITICAL, Level.CRITICAL), (WARNING, Level.WARNING), (APPLICATION, Level.INFO)],
)
def test_each_number_has_its_level(codes: tuple[int, ...], level: Level) -> None:
    assert {code: explain(code).level for code in codes} == dict.fromkeys(codes, level)


def test_a_failed_copy_or_video_engine_is_a_warning() -> None:
    engines = set(XIDS) - {*CRITICAL, *WARNING, *APPLICATION}
    assert engines >= {39, 40, 41, 68}
    assert {XIDS[code].level for code in engines} == {Level.WARNING}
    assert all("engine" in XIDS[code].meaning for code in engines)


@rows("code", sorted(XIDS))
def test_the_words_are_plain_and_say_what_to_do(code: int) -> None:
    xid = XIDS[code]
    assert re.fullmatch(r"[a-z][^:]*[^.:]", xid.meaning), "it goes on after a colon"
    advice = xid.advice(3)
    assert re.fullmatch(r"[A-Z].*\.", advice)
    assert "{" not in advice
    assert len(xid.meaning) < 90
    assert len(advice) < 320


def test_the_advice_names_the_device() -> None:
    assert "nvidia-smi --gpu-reset -i 5)" in explain(48).advice(5)


@pytest.mark.parametrize(
    ("detail", "level", "words"),
    [
        ("0x0 (None) to 0x1 (GPU Reset Required)", "critical", "reset"),
        ("0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)", "critical", "reboot"),
        ("0x0 (None) to 0x3 (Drain P2P)", "critical", "stop the work"),
        ("0x0 (None) to 0x4 (Drain and Reset)", "critical", "stop the work"),
        ("0x1 (GPU Reset Required) to 0x0 (None)", "info", "recovered"),
        ("", "warning", "changed the recovery action"),
    ],
)  # fmt: skip
def test_a_recovery_action_is_read_from_the_drivers_words(
    detail: str, level: str, words: str
) -> None:
    found = explain(154, f"GPU recovery action changed from {detail}" if detail else "")
    assert found.level == level
    assert words in found.meaning


def test_a_number_without_words_is_a_warning_that_says_where_to_look() -> None:
    assert explain(999_999).level is Level.WARNING
    assert "docs.nvidia.com" in explain(999_999).action
    assert "without saying which" in explain(None).meaning


@given(st.integers() | st.none(), st.text())
def test_every_number_and_text_has_an_answer(code: int | None, detail: str) -> None:
    found = explain(code, detail)
    assert found.meaning
    assert found.advice("x")
