"""`andon doctor`: what a person and a script see."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.commands.setup import doctor
from andon.cli.main import run
from andon.cli.show.findings import broken_command, findings_to_json, render_findings, summary
from andon.cli.show.text import display_width, painted, styled
from andon.cli.terminal import Terminal
from andon.doctor.rules.checkup import judge
from andon.doctor.rules.facts import (
    BookFolder,
    Contents,
    MachineFacts,
    PortListener,
    RunningServer,
    StrayFiles,
    StrayReason,
)
from andon.doctor.rules.findings import (
    Check,
    CheckResult,
    Grade,
    exit_code,
    failure,
    in_order,
    ok,
    unknown,
    warning,
    worst,
)
from andon.host.rules.nvml_library import Library
from tests.support.doctor.case import box, kernel, one_card, own
from tests.support.doctor.machines import (
    FOLDER,
    HISTORY,
    LIBRARY,
    SAFE,
    STATE,
    TOKEN,
    broken,
    laptop,
    no_gpu,
    server,
)
from tests.support.doctor.table import CASES
from tests.support.rows import rows
from tests.support.snapshots import AT

TITLE = doctor.title_of("doctor", "node17")
Golden = Callable[[str, str], None]


def upgraded() -> MachineFacts:
    """A driver upgraded while it was loaded, an outdated CDI file, a stranger's lease book."""
    library = replace(LIBRARY, target="/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.200.01")
    facts = replace(broken(server(), "the driver and its library have different versions",
                           "the driver was upgraded while it was loaded: reboot"),
                    libraries=(library,))  # fmt: skip
    return own(box(facts, char_links=False), books=(BookFolder("/tmp/andon", "mallory", 1002),))


def nouveau() -> MachineFacts:
    bare = replace(broken(no_gpu()), cards=one_card("nouveau"))
    lies = "/usr/lib/wsl/lib/libnvidia-ml.so.1"
    return kernel(replace(bare, libraries=(Library(lies, "", lies),)), modules=("nouveau",))


def shared() -> MachineFacts:
    """A machine with a hostile neighbour: his book, his files, his listener; a loose state."""
    contents = Contents(
        (
            StrayFiles(StrayReason.MALFORMED, "mallory", 1002, 2),
            StrayFiles(StrayReason.UNLOCKED, "bob", 1001),
        ),
        (("mallory", 1002, 8000), ("bob", 1001, 3)),
    )
    loose = replace(TOKEN, mode=0o644)
    security = replace(
        SAFE,
        state=(replace(FOLDER, mode=0o755), loose, replace(HISTORY, mode=0o644)),
        server=RunningServer(f"{STATE}/server.json", 26366, lives=False),
        listeners=(PortListener("127.0.0.1", 26366, "mallory", 1002),),
        protected_hardlinks=False,
    )
    books = (BookFolder("/tmp/andon", "mallory", 1002, contents=contents),)
    return replace(own(server(), books=books), security=security)


def drawn(facts: MachineFacts, width: int = 80, color: bool = False, quiet: bool = False) -> str:
    return painted(render_findings(judge(facts), TITLE, width, quiet), color)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("healthy", server()),
        ("no-gpu", no_gpu()),
        ("upgraded", upgraded()),
        ("nouveau", nouveau()),
        ("laptop", laptop()),
        ("shared", shared()),
    ],
)
def test_golden_examinations_look_as_drawn(name: str, facts: MachineFacts, golden: Golden) -> None:
    golden(f"doctor-{name}.txt", drawn(facts))


def test_a_golden_examination_in_colour_looks_as_drawn(golden: Golden) -> None:
    golden("doctor-color.txt", drawn(upgraded(), color=True))


def test_a_golden_examination_speaks_json(golden: Golden) -> None:
    value = findings_to_json(doctor.SCHEMA, judge(upgraded()), "node17", AT, 3)
    golden("doctor.json", Terminal(80, 24, color=False, live=True).json_text(value))


@pytest.mark.slow
@rows("made", CASES, ids=lambda made: made.name)
def test_no_line_is_wider_than_the_screen_unless_a_word_is(made: object) -> None:
    facts: MachineFacts = made.facts  # type: ignore[attr-defined]
    for line in drawn(facts).splitlines():
        assert display_width(line) <= 80 or max(map(len, line.split())) > 50, line


def test_what_is_wrong_comes_first() -> None:
    lamps = [line[0] for line in drawn(upgraded()).splitlines()[1:-1] if line[0] != " "]
    assert "".join(lamps) == "✕" * lamps.count("✕") + "▲" * lamps.count("▲") + "●" * lamps.count(
        "●"
    )
    assert set(lamps) == {"✕", "▲", "●"}


def test_quiet_leaves_out_what_is_fine_and_still_counts_it() -> None:
    text = drawn(upgraded(), quiet=True)
    assert "●" not in text
    assert "fine" in text.splitlines()[-1]


def test_a_long_command_breaks_where_a_shell_reads_on() -> None:
    command = "echo blacklist nouveau | sudo tee /etc/x.conf && sudo update-initramfs -u && reboot"
    assert broken_command(command, 50) == [
        "echo blacklist nouveau | sudo tee /etc/x.conf &&",
        "sudo update-initramfs -u && reboot",
    ]
    assert broken_command("a | b", 50) == ["a | b"]
    assert " ".join(broken_command(command, 20)) == command


def test_the_count_names_each_grade_once() -> None:
    found = [failure(Check.NOUVEAU, "x", "y"), ok(Check.KERNEL, "x"), unknown(Check.CLOCK, "x")]
    assert summary(found).plain == "1 failure · 1 not checked · 1 fine"
    assert summary([]).plain == "nothing was checked"


def test_a_word_from_outside_cannot_move_the_cursor() -> None:
    text = painted(render_findings([ok(Check.KERNEL, "a\x1b[2Jb")], styled("t"), 80))
    assert "\x1b" not in text


# Grades and exit codes.


@rows(
    ("found", "code", "grade"),
    [
        ([], 0, Grade.OK),
        ([ok(Check.KERNEL, "x")], 0, Grade.OK),
        ([unknown(Check.CLOCK, "x")], 0, Grade.OK),
        ([ok(Check.KERNEL, "x"), warning(Check.CLOCK_UNSYNCHRONISED, "x", "y")], 0, Grade.WARNING),
        ([warning(Check.NO_DEVICE, "x", "y")], 0, Grade.WARNING),
        ([failure(Check.NOUVEAU, "x", "y")], 1, Grade.FAILURE),
        ([failure(Check.NO_DEVICE, "x", "y")], 3, Grade.FAILURE),
        ([failure(Check.NOUVEAU, "x", "y"), failure(Check.NO_DEVICE, "x", "y")], 3, Grade.FAILURE),
    ],
)
def test_the_worst_decides_the_exit_code(found: list[CheckResult], code: int, grade: Grade) -> None:
    assert exit_code(found, Check.NO_DEVICE) == code
    assert worst(found) is grade


def test_the_order_within_a_grade_is_kept() -> None:
    found = [ok(Check.KERNEL, "1"), failure(Check.NOUVEAU, "2", "y"), ok(Check.CLOCK, "3")]
    assert [finding.message for finding in in_order(found)] == ["2", "1", "3"]


def test_every_name_is_a_plain_word_with_an_area() -> None:
    assert {check.area for check in Check} == {
        "devices", "driver", "library", "access", "container", "system", "andon", "security",
    }  # fmt: skip
    assert all(check.replace("_", "").isalpha() and check.islower() for check in Check)


# The command, over this machine with simulated devices.


@pytest.mark.process
def test_the_command_prints_json_that_parses(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["doctor", "--json", "--simulate", "2"])
    value = json.loads(capsys.readouterr().out)
    assert value["schema"] == "andon.doctor/1"
    assert value["exit_code"] == code
    ids = {finding["id"] for finding in value["findings"]}
    assert "devices_simulated" in ids
    assert ids <= set(Check)


@pytest.mark.process
def test_a_mistake_in_the_settings_is_a_finding_and_not_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "andon.toml"
    path.write_text("[sampling]\ninterval = 0\nintervall = 1\n")
    code = run(["doctor", "--json", "--config", str(path)])
    value = json.loads(capsys.readouterr().out)
    wrong = [f for f in value["findings"] if f["id"] == "settings_wrong"]
    assert len(wrong) == 2
    assert {f["fix"] for f in wrong} == {"andon config check"}
    assert code in (1, 3)


@pytest.mark.process
def test_a_file_of_settings_that_cannot_be_read_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["doctor", "--config", str(tmp_path / "none.toml"), "--simulate", "1"])
    assert "none.toml cannot be read" in capsys.readouterr().out.replace("\n             ", " ")


@pytest.mark.process
def test_an_unknown_backend_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_BACKENDS", "cuda")
    assert run(["doctor"]) == 3
    assert "unknown backend: cuda" in capsys.readouterr().out


def test_the_state_and_the_book_are_looked_for_where_they_would_be(
    state_folder: Path, book_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor._state().path == str(state_folder / "andon")
    assert doctor.book_places()[0] == book_folder
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert doctor._state().path.endswith("/.local/state/andon")


def test_only_the_old_pynvml_is_in_the_way() -> None:
    for version, old in ((None, None), ("11.5.3", "11.5.3"), ("12.0.0", None), ("x", None)):
        assert doctor._old_pynvml(version) == old
