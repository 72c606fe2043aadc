"""Commands that hints name ask the machine that the command itself asked."""

from typing import Any

import pytest

from andon.cli.main import run
from andon.cli.terminal import Choices, Terminal, for_machine
from andon.errors import Gone
from tests.support.fake_node import FakeNode
from tests.support.rows import rows
from tests.support.snapshots import farm

URL = "http://h:1"
SERVER, HOST = {"url": URL}, {"url": "ssh:n17"}
OF_HUB = {"url": URL, "node_name": "n17"}


@rows("given, text, wanted", [
    (HOST, "andon why 2", "andon why 2 --ssh n17"),
    (SERVER, "GPU 2: hot · andon why 2", f"GPU 2: hot · andon why 2 --url {URL}"),
    (OF_HUB, "see andon ps", f"see andon ps --url {URL} --node n17"),
    (OF_HUB, "see: andon nodes show n18", f"see: andon nodes show n18 --url {URL}"),
    ({"url": URL, "token_file": "a b"}, "andon ps", f"andon ps --url {URL} --token-file 'a b'"),
    ({"url": "ssh://ada@n17:22"}, "andon ps", "andon ps --ssh ssh://ada@n17:22"),
    (HOST, "  (andon free says why)", "  (andon free --ssh n17 says why)"),
    (HOST, "\x1b[2mandon why 2\x1b[0m", "\x1b[2mandon why 2 --ssh n17\x1b[0m"),
    (HOST, "hot · andon why\n2 more", "hot · andon why --ssh n17\n2 more"),
    # Words of the sentence that goes on are no arguments.
    (SERVER, "andon jobs --all lists them", f"andon jobs --all --url {URL} lists them"),
    (SERVER, "to list them: andon jobs -n 5", f"to list them: andon jobs -n 5 --url {URL}"),
    (SERVER, "Next: andon runs report a1b2", f"Next: andon runs report a1b2 --url {URL}"),
    (SERVER, "Next: andon runs report kqzv", f"Next: andon runs report kqzv --url {URL}"),
    (SERVER, "no runs; andon runs.", f"no runs; andon runs --url {URL}."),
    (SERVER, "andon jobs --group 'a b' has it", f"andon jobs --group 'a b' --url {URL} has it"),
    (SERVER, "see andon ps, or andon why 2",
     f"see andon ps --url {URL}, or andon why 2 --url {URL}"),
    # Each only where the command takes it.
    (HOST, "andon jobs --all", "andon jobs --all --ssh n17"),
    (HOST, "andon logs 4", "andon logs 4"),
    (SERVER, "andon serve records history", "andon serve records history"),
    (SERVER, "to end a process: andon kill 4", "to end a process: andon kill 4"),
    (SERVER, "andon there does not answer", "andon there does not answer"),
    # Whoever names a machine means that one; and so does what is said about another one.
    ({}, "andon why 2", "andon why 2"),
    (SERVER, "try: andon status --simulate 4", "try: andon status --simulate 4"),
    (SERVER, "andon ps --ssh n18", "andon ps --ssh n18"),
    (SERVER, "on n17: andon runs show a1", "on n17: andon runs show a1"),
    (SERVER, "on its machine: andon jobs 4", "on its machine: andon jobs 4"),
    (SERVER, "in a terminal of ada: andon logs 4, andon jobs",
     "in a terminal of ada: andon logs 4, andon jobs"),
    (SERVER, "ssh -t n17 andon jobs", "ssh -t n17 andon jobs"),
    # The command line of a process is none to type.
    (SERVER, "0  4711  ada  andon watch", "0  4711  ada  andon watch"),
])  # fmt: skip
def test_a_command_asks_the_machine_that_the_command_line_named(
    given: dict[str, Any], text: str, wanted: str
) -> None:
    assert for_machine(text, Choices(**given)) == wanted


@rows("words, here", [
    (["leases"], "no leases; to take one: andon run -- python train.py"),
    (["jobs"], "no jobs; andon submit -- COMMAND queues one"),
])  # fmt: skip
def test_what_would_be_done_here_is_not_said_of_another_machine(
    words: list[str], here: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, wanted in (([], here), (["--url", URL], here.partition(";")[0])):
        assert run([*words, *more], FakeNode(farm())) == 0
        assert capsys.readouterr().out.rstrip() == wanted


def test_hints_of_errors_and_notices_name_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    gone = Gone("there is no job 9; andon jobs --all lists them", hint="to list them: andon jobs")
    node = FakeNode(farm(), error=gone)
    assert run(["cancel", "9", "--url", URL], node) == gone.exit_code
    found = capsys.readouterr().err
    assert f"andon jobs --all --url {URL} lists them" in found
    assert f"hint: to list them: andon jobs --url {URL}\n" in found


def test_json_has_what_the_node_said() -> None:
    class Out:
        encoding, text = "utf-8", ""

        def write(self, text: str) -> None:
            self.text += text

        def flush(self) -> None: ...

        def isatty(self) -> bool:
            return False

    out: Any = Out()
    terminal = Terminal.of(Choices(url=URL, out=out, color="never"))
    terminal.show_json({"hint": "see: andon why 2"})
    terminal.show("see: andon why 2\n")
    assert out.text == f'{{"hint":"see: andon why 2"}}\nsee: andon why 2 --url {URL}\n'
