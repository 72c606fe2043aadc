"""What others wrote reaches a screen or a spreadsheet as text: no command, and no formula."""

import csv
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from andon.cli.commands.jobs.submitted import show_batches
from andon.cli.main import run
from andon.cli.show import csv_table
from andon.cli.show.history import USES
from andon.cli.show.process_rows import PROCESSES, uses
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError, Unavailable
from andon.history.rules.intervals import UsageInterval
from andon.jobs.submitting import new_submission
from andon.model import wire
from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot, State
from andon.model.job.desk import Accepted
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import JobSpec
from tests.support.proving import TOKEN, proving
from tests.support.rows import rows

FORMULAS = (
    "=cmd|'/C calc'!A0", "+1+1", "-2+3", "@SUM(A1)",
    "\t=1", "\r=1", "\n=1", "  =1", "\x0b=1", "＝1",
)  # fmt: skip
HOSTILE = "a\x1b[2J\x07\x9b31m\u202etxt\x7f\u2066\U000e0041b"


def node(name: str) -> Snapshot:
    device = Device(uuid="GPU-1", index=0, vendor="nvidia", name=name)
    process = Process(4711, user=name, name=name, command=name, container=name, job=name)
    status = DeviceStatus(device, State.OK, 1.0, sample=Sample(at=1.0), processes=(process,))
    return Snapshot(name, 1.0, devices=(status,))


def cells(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row]


@rows("name", FORMULAS)
def test_no_cell_of_a_spreadsheet_is_a_formula(name: str) -> None:
    snapshot = node(name)
    past = [UsageInterval("GPU-1", 4711, 1.0, name, name, 1.0, 2.0)]
    texts = (
        PROCESSES.text((snapshot, one) for one in uses(snapshot, {})),
        "".join(csv_table.device_rows(snapshot)),
        USES.text(past),
    )
    for text in texts:
        found = [cell for cell in cells(text) if name.strip() in cell]
        assert found
        assert all(cell.startswith("'") for cell in found)
        assert not [cell for cell in cells(text) if cell.lstrip()[:1] in set("=+@＝")]


def test_numbers_keep_their_sign_and_names_keep_their_minus() -> None:
    line = csv_table.csv_line([-5, -0.5, None, True, "a-b", "x=1"])
    assert line == "-5,-0.5,,true,a-b,x=1\n"


def test_json_escapes_what_no_screen_shows_and_loses_nothing() -> None:
    value = {"name": HOSTILE, "other": "Größe 数 🚀"}
    for live in (True, False):
        text = Terminal(80, 24, color=False, live=live).json_text(value)
        assert json.loads(text) == value
        assert not [c for c in text if c not in "\n" and not c.isprintable()]
        assert "Größe 数 🚀" in text
    assert wire.loads(wire.dumps(value), wire.ANSWER) == value


def test_a_terminal_obeys_nothing_but_colours(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(80, 24, color=True, live=False).show(f"\x1b[1;31mred\x1b[0m\t{HOSTILE}\n")
    shown = capsys.readouterr().out
    assert shown.startswith("\x1b[1;31mred\x1b[0m\t")
    assert not {"\x07", "\x9b", "\u202e", "\x7f", "\u2066"} & set(shown)
    assert "\x1b[2J" not in shown


class Impostor:
    """A server that answers every request with the same words."""

    url = "http://127.0.0.1:1"

    def __init__(self, **said: Any) -> None:
        self._said = said

    def post(self, path: str, body: object = None) -> dict[str, Any]:
        return self._said

    def of_another_version(self, difference: str) -> AndonError:
        return Unavailable(difference)


@pytest.fixture
def token(tmp_path: Path) -> str:
    """The file with the server's token."""
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(TOKEN)
    return str(path)


@pytest.mark.parametrize(
    "code", ["\x1b]0;owned\x07" + "a" * 20, "a b" * 9, "", None, 5, "x" * 9999]
)
def test_open_prints_no_answer_that_is_not_a_code(
    code: object, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with proving() as server:
        server.body = json.dumps({"code": code}).encode()
        assert run(["open", "--print", "--url", server.url, "--token-file", token]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert "no code" in told.err


def test_open_prints_the_code_of_a_link(token: str, capsys: pytest.CaptureFixture[str]) -> None:
    from andon.web.transport.keys import Keys

    code = Keys("x" * 40).new_code()
    with proving() as server:
        server.body = json.dumps({"code": code}).encode()
        assert run(["open", "--print", "--url", server.url, "--token-file", token]) == 0
    assert capsys.readouterr().out == f"{server.url}/#code={code}\n"


class Screen(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_name_in_a_job_file_forges_no_line() -> None:
    name = f"train\x1b[31m{HOSTILE}\r\njob 2: forged"
    with redirect_stdout(Screen()) as screen:
        job = JobSpec(0, name, ("true",), "/", DeviceRequest(), 0.0, simulate=1)
        for label in ("1", "lab:1"):
            show_batches(Choices(), [Accepted(new_submission(job), label)])
    shown = screen.getvalue()
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2
