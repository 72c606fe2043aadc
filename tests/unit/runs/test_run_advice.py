"""What a report says could be better, and what it must not say."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.model.run.record import OutOfMemory, RunState
from andon.model.run.use import IdleSpells
from andon.runs.rules.reports.advice import ADVICE, advice_on
from andon.runs.rules.reports.report import DeviceItems, Phases, RunReport
from andon.units import GIB, fixed
from tests.support.run_reports import GOOD, device, figures, report

SPELLS = IdleSpells(count=400, mean_seconds=0.8, longest_seconds=2.0, source="driver")
UNSEEN = IdleSpells(count=0, mean_seconds=0.0, longest_seconds=0.0, source="samples")
AT_START = IdleSpells(count=3, mean_seconds=5.0, longest_seconds=8.0, source="driver")
WAITING = {**GOOD, "utilization_percent": 38.0}

CASES: dict[str, tuple[RunReport, list[str]]] = {
    "a device that does its work well": (report(), []),
    "a starved loader and a busy CPU": (
        report(device("1", WAITING, spells=SPELLS), cpu=figures(98.0)),
        [
            "GPU 1 was busy 38 % of the time, idle in stretches of 0.8 s: the loader starves it; "
            "CPU was at 98 %, so do less work there per item"
        ],
    ),
    "a starved loader and a quiet CPU": (
        report(device("1", WAITING, spells=SPELLS)),
        [
            "GPU 1 was busy 38 % of the time, idle in stretches of 0.8 s: the loader starves it "
            "(CPU was at 30 %); try more loader workers, faster storage or larger batches; normal "
            "for a server with few requests"
        ],
    ),
    "a loop that waited for data": (
        report(device("1", WAITING, spells=SPELLS), last_values={"waiting_for_data_percent": 41.0}),
        [
            "GPU 1 was busy 38 % of the time, idle in stretches of 0.8 s; the loop waited for data "
            "41 % of the time: the loader starves it (CPU was at 30 %); try more loader workers, "
            "faster storage or larger batches; normal for a server with few requests"
        ],
    ),
    "a loop that hardly waited for data": (
        report(device("1", WAITING), last_values={"waiting_for_data_percent": 1.2}),
        [
            "GPU 1 was busy 38 % of the time; the loop waited for data 1 % of the time: it is not "
            "the loader; larger batches, or less work on the CPU between kernels"
        ],
    ),
    "a starved loader without spells or CPU": (
        report(device("1", WAITING), cpu=figures(98.0)),
        [
            "GPU 1 was busy 38 % of the time: the loader starves it; CPU was at 98 %, so do less "
            "work there per item"
        ],
    ),
    "a starved loader after a long start": (
        report(
            device(
                "1", WAITING, spells=AT_START, phases=Phases(14.0, 22.0, 1.0, 13.0)
            )
        ),
        [
            "GPU 1 was busy 13 % of the time between its first and its last work: the loader "
            "starves it (CPU was at 30 %); try more loader workers, faster storage or larger "
            "batches; normal for a server with few requests"
        ],
    ),
    "pauses that no reading shows": (
        report(device("1", {**GOOD, "utilization_percent": 14.0}, spells=UNSEEN, idle_share=0.0)),
        [
            "GPU 1 was busy 14 % of the time, with pauses shorter than a reading: the loader "
            "starves it (CPU was at 30 %); try more loader workers, faster storage or larger "
            "batches; normal for a server with few requests"
        ],
    ),
    "bursts at the power cap, far below it on average": (
        report(device("0", GOOD | {"power_watts": 300.0}, throttle_shares={"sw_power_cap": 0.24})),
        [],
    ),
    "busy, though a few spells were seen": (report(device(spells=SPELLS)), []),
    "a run of two seconds says nothing": (
        report(device("0", WAITING, held_seconds=2.0), duration_seconds=2.0),
        [],
    ),
    "minutes without work are no loader's": (
        report(device("0", WAITING, spells={**SPELLS, "mean_seconds": 45.0})),
        [
            "GPU 0 was busy 38 % of the time, idle in stretches of 45 s: something else runs in "
            "between, such as evaluation or checkpoints on the CPU"
        ],
    ),
    "busy, but with small kernels": (
        report(device("0", {**GOOD, "sm_active_percent": 31.0})),
        [
            "GPU 0 was busy 97 %, SMs active 31 %: many small kernels; larger batches, fused "
            "kernels or CUDA graphs would use more of it"
        ],
    ),
    "small kernels, told by power": (
        report(device("0", {"utilization_percent": 97.0, "power_watts": 140.0})),
        [
            "GPU 0 was busy 97 %, but drew 20 % of its power limit: many small kernels; larger "
            "batches, fused kernels or CUDA graphs would use more of it"
        ],
    ),
    "little power while memory is the limit": (
        report(
            device(
                "0",
                {
                    "utilization_percent": 97.0,
                    "power_watts": 200.0,
                    "memory_utilization_percent": 80.0,
                },
            )
        ),
        [],
    ),
    "held and never used": (
        report(device(), device("1", {"utilization_percent": 0.0}, peak_memory_bytes=GIB)),
        ["GPU 1 was held for 10 min and nothing ran on it: ask for fewer devices"],
    ),
    "all of them held and never used": (
        report(device("1", {"utilization_percent": 0.0}, peak_memory_bytes=GIB)),
        [
            "GPU 1 was held for 10 min and nothing ran on it: does the program use the CPU "
            "instead?"
        ],
    ),
    "slowed down by heat": (
        report(
            device(
                "0", {**GOOD, "temperature_celsius": 91.0},
                throttle_shares={"sw_thermal_slowdown": 0.12, "sw_power_cap": 0.05},
            )
        ),
        [
            "Heat slowed GPU 0 down 12 % of the time (up to 91 °C): check airflow and fans"
        ],
    ),
    "slowed down by the board": (
        report(device(throttle_shares={"hw_slowdown": 0.5})),
        [
            "The board slowed GPU 0 down 50 % of the time: check power supply and cooling "
            "(andon why)"
        ],
    ),
    "at its power cap": (
        report(device("0", GOOD | {"power_watts": 680.0}, throttle_shares={"sw_power_cap": 0.64})),
        [
            "GPU 0 was at its power cap of 700 W 64 % of the time: normal under full load; below "
            "the default limit a higher one makes it faster"
        ],
    ),
    "ranks of different weight": (
        report(device("0"), device("1", {**GOOD, "utilization_percent": 55.0}, phases=None)),
        [
            "GPU 1 was busy 55 % of the time: the loader starves it (CPU was at 30 %); try more "
            "loader workers, faster storage or larger batches; normal for a server with few "
            "requests",
            "GPU 1 was busy 55 % and GPU 0 97 % of the time: the work is not divided evenly "
            "between the devices",
        ],
    ),
    "a long warm-up": (
        report(device(phases=Phases(180.0, 419.0, 1.0, 97.0))),
        [
            "Nothing ran on GPU 0 in the first 3 min of 10 min: load and prepare the data before "
            "the devices are taken"
        ],
    ),
    "held but idle at the end": (
        report(device(phases=Phases(1.0, 359.0, 240.0, 97.0))),
        [
            "GPU 0 was held but idle for the last 4 min: end the run, or release the device, when "
            "its work is done"
        ],
    ),
    "idle at the end, as far as it goes on": (
        report(device(phases=Phases(1.0, 359.0, 240.0, 97.0)), state=RunState.RUNNING),
        [],
    ),
    "memory is far from full": (
        report(device(peak_memory_bytes=22 * GIB)),
        [
            "GPU 0 used 22.0 GiB of 140 GiB at most: a larger batch fits, or a smaller device "
            "would do"
        ],
    ),
    "memory is as good as full": (
        report(device(peak_memory_bytes=139 * GIB)),
        ["GPU 0 used 139 GiB of 140 GiB: a slightly larger batch would not fit"],
    ),
    "items that failed": (
        report(device(items=DeviceItems(done=90, failed=3, retried=7))),
        [
            "Of 93 items 3 failed, 7 tries were repeated: their output says why (andon runs tail)"
        ],
    ),
    "out of memory in one step": (
        report(out_of_memory=OutOfMemory("PyTorch", 4 * GIB, GIB, 130 * GIB, 0, 2 * GIB, "step")),
        [
            "GPU memory ran out: 4.0 GiB more were wanted: one large step did not fit; use a "
            "smaller batch or accumulate gradients"
        ],
    ),
    "out of memory by a leak": (
        report(out_of_memory=OutOfMemory(growth="leak")),
        [
            "GPU memory ran out: memory grew until it was full; look for tensors that are kept "
            "from step to step"
        ],
    ),
    "out of memory for others": (
        report(out_of_memory=OutOfMemory(wanted_bytes=GIB, held_by_others_bytes=60 * GIB)),
        [
            "GPU memory ran out: 1.0 GiB more were wanted: others held 60.0 GiB; ask for a device "
            "of your own (andon run)"
        ],
    ),
    "out of memory though the cache had enough": (
        report(out_of_memory=OutOfMemory(wanted_bytes=GIB, held_by_cache_bytes=9 * GIB)),
        [
            "GPU memory ran out: 1.0 GiB more were wanted: the allocator's cache held 9.0 GiB; it "
            "is fragmented (expandable segments help)"
        ],
    ),
    "nothing was read": (
        report(device("0", {}, peak_memory_bytes=None, idle_share=None)),
        [],
    ),
}  # fmt: skip


def test_each_situation_gets_its_words_and_no_others() -> None:
    wrong = {}
    for name, (given_report, expected) in CASES.items():
        found = [one.text for one in advice_on(given_report)]
        if found != expected:
            wrong[name] = found
    assert not wrong


def test_every_piece_of_advice_is_shown_by_a_situation() -> None:
    shown = {one.name for found, _ in CASES.values() for one in advice_on(found)}
    assert {ask.__name__ for ask in ADVICE} == shown


def test_the_page_on_runs_lists_all_advice() -> None:
    page = Path("docs/runs.md").read_text(encoding="utf-8")
    assert [ask.__name__ for ask in ADVICE if f"`{ask.__name__}`" not in page] == []


@given(
    busy=st.none() | st.floats(0, 100),
    active=st.none() | st.floats(0, 100),
    shares=st.dictionaries(
        st.sampled_from(["sw_power_cap", "hw_slowdown", "new"]), st.floats(0, 1)
    ),
    seconds=st.none() | st.floats(0, 1e6),
    peak=st.none() | st.integers(0, 140 * GIB),
)
def test_a_busy_device_is_never_called_starved(
    busy: float | None,
    active: float | None,
    shares: dict[str, float],
    seconds: float | None,
    peak: int | None,
) -> None:
    means = {"utilization_percent": busy, "sm_active_percent": active}
    known = {name: value for name, value in means.items() if value is not None}
    one = device("0", known, throttle_shares=shares, peak_memory_bytes=peak, held_seconds=seconds)
    found = replace(report(one), duration_seconds=seconds)
    starved = any(advice.name == "starved_loader" for advice in advice_on(found))
    assert not (starved and (busy is None or busy >= 75))
    assert all(advice.evidence and advice.advice for advice in advice_on(found))


SPELL = st.builds(
    lambda count, mean: IdleSpells(
        count=count, mean_seconds=mean if count else 0.0, longest_seconds=mean, source="samples"
    ),
    st.integers(0, 50),
    st.floats(0.0, 100.0),
)


@given(st.floats(0, 100), st.none() | SPELL, st.floats(0, 1), st.floats(0, 4000))
def test_no_advice_contradicts_the_table_above_it(
    busy: float, spells: IdleSpells | None, idle: float, seconds: float
) -> None:
    """A2: "idle 86 % of the time in stretches of 0 s" above a table with idle 0 %."""
    found = report(
        device("1", {**GOOD, "utilization_percent": busy}, spells=spells, idle_share=idle),
        duration_seconds=seconds,
    )
    for one in advice_on(found):
        assert "was idle" not in one.evidence
        if spells is None or not spells["count"]:
            assert "stretches" not in one.evidence
        if "busy" in one.evidence:
            assert f"busy {fixed(busy)} %" in one.evidence
