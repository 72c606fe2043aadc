"""The table of throttle reasons, and everything that is taken from it."""

import json
import os
import re

from andon.history.rules.series import throttle_mask, throttle_reasons
from andon.model.device import SAMPLE_VALUES, reading_label
from andon.model.throttling import (
    NVIDIA_REASONS,
    REASONS,
    ThrottleKind,
    reason_of,
    reason_of_smi,
)
from andon.model.vendors import MASKED, VENDORS
from tests.conftest import REPOSITORY
from tests.support.sources import sources

BOARD = REPOSITORY / "frontend/src/lib/tables.ts"
HEAD = """/** Made from andon's own tables by tests/unit/model/test_throttling.py: make golden. */
"""
STORED = (
    "other", "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
    "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
    "display_clock_setting", "current_limit", "temperature_limit", "reliability_limit",
)  # fmt: skip
"""What the bits of histories that people have mean."""
NVML = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8,
    "sync_boost": 0x10, "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80, "display_clock_setting": 0x100,
}  # fmt: skip


def test_a_bit_of_the_stored_history_never_moves() -> None:
    for place, name in enumerate(STORED):
        assert throttle_reasons(1 << place) == (name,)
    for name in STORED[1:]:
        assert throttle_mask((name,)) == 1 << STORED.index(name)
    assert throttle_mask(("of a driver to come",)) == 1
    assert len({reason.history_bit for reason in REASONS} | {0}) == len(REASONS) + 1


def test_nvml_s_bits_are_those_of_its_header() -> None:
    assert {reason.name: reason.nvml_bit for reason in NVIDIA_REASONS} == NVML
    assert reason_of_smi("user_defined_clocks") == "applications_clocks_setting"
    assert reason_of_smi("sw_power_cap") == "sw_power_cap"


def test_a_reason_without_a_row_is_a_harmless_setting() -> None:
    other = reason_of("of_tomorrow")
    assert (other.title, other.alarming, other.kind) == (
        "of tomorrow", False, ThrottleKind.SETTING,
    )  # fmt: skip
    assert reason_of("temperature_limit").kind is ThrottleKind.THERMAL


def test_no_other_module_spells_a_reason() -> None:
    names = "|".join(reason.name for reason in REASONS)
    spelled = [
        f"{path}: {found}"
        for path, text in sources().items()
        if not path.endswith(("/throttling.py", "/conditions/index.py"))  # which is generated
        for found in re.findall(rf'"(?:{names})"', text)
    ]
    assert spelled == []


def test_the_docs_list_every_reason() -> None:
    (row,) = re.findall(r"^\| `throttle` \|.*$", _page("docs/snapshot.md"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) - {"throttle"} == {reason.name for reason in REASONS}


def test_the_golden_tables_of_the_board_are_these() -> None:
    throttle = {
        reason.name: {
            "title": reason.title,
            "kind": str(reason.kind),
            "alarming": reason.alarming,
        }
        for reason in REASONS
    }
    vendors = {vendor.name: vendor.title for vendor in VENDORS}
    words = {one.name: {"index": index_words(one.runtime), "clock": one.clock} for one in MASKED}
    labels = {
        name: label
        for name in SAMPLE_VALUES
        if (label := reading_label(name)) != name.replace("_", " ")
    }
    kind = "{ title: string; kind: string; alarming: boolean }"
    text = (
        f"{HEAD}export const THROTTLE: Record<string, {kind}> = {json.dumps(throttle, indent=2)};"
        f"\n\nexport const VENDORS: Record<string, string> = {json.dumps(vendors, indent=2)};\n"
        f"\n/** What a vendor calls the number and the clock of its devices. */\n"
        f"export const OWN_WORDS: Record<string, {{ index: string; clock: string }}> = "
        f"{json.dumps(words, indent=2)};\n"
        f"\n/** What people call a reading whose name would not do. */\n"
        f"export const LABELS: Record<string, string> = {json.dumps(labels, indent=2)};\n"
    )
    if os.environ.get("UPDATE_GOLDEN"):
        BOARD.write_text(text, encoding="utf-8")
    assert BOARD.read_text(encoding="utf-8") == text, "make golden, and read the difference"


def test_the_board_spells_no_reason_and_no_vendor_itself() -> None:
    names = [*(reason.name for reason in REASONS), *(vendor.title for vendor in VENDORS)]
    for path in (REPOSITORY / "frontend/src").rglob("*.ts*"):
        if path.name in ("schema.d.ts", "tables.ts", "faces.ts"):  # faces shortens model names
            continue
        text = path.read_text(encoding="utf-8")
        found = [name for name in names if name in text and re.search(rf"\b{name}\b", text)]
        assert found == [], path


def _page(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def index_words(runtime: str) -> str:
    """The name of a device's number in its runtime: `HIP index`."""
    return "device number" if runtime == "number" else f"{runtime.upper()} index"
