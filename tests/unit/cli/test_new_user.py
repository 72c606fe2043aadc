"""What a new user types first, with neither docs nor code at hand, leads somewhere."""

import io
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from andon.cli.catalogue import ALIASES, COMMANDS, SYNONYMS
from andon.cli.commands.explain.alerts_trial import trial
from andon.cli.commands.suggestions import OPTION_SYNONYMS
from andon.cli.main import cli, named, run
from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.errors import Conflict, Unavailable
from andon.host.state import server_file
from andon.jobs.folder import open_jobs_folder
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.model.device import Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobNote
from andon.model.job.spec import JobSpec
from tests.support.fake_node import FakeNode
from tests.support.homes import made_node_state
from tests.support.proving import TOKEN, Proving, proving
from tests.support.rows import rows
from tests.support.sharing_parts import gpu, lease_row, request
from tests.support.snapshots import farm

NODE = Availability(lambda: Snapshot("n", time.time(), devices=tuple(gpu(i) for i in range(8))))


@pytest.fixture(autouse=True)
def book(book: Book, monkeypatch: pytest.MonkeyPatch) -> Book:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    return book


Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize("word", SYNONYMS)
def test_a_word_that_people_try_names_the_command(word: str, capsys: Said) -> None:
    assert run([word]) == 2
    assert f"did you mean: andon {SYNONYMS[word]}?" in capsys.readouterr().err
    assert SYNONYMS[word].split()[0] in COMMANDS
    assert word not in {*COMMANDS, *ALIASES}


def test_help_is_a_word_too(capsys: Said) -> None:
    for words, option in ((["help"], ["--help"]), (["help", "run"], ["run", "--help"])):
        assert run(words) == 0
        said = capsys.readouterr().out
        assert run(option) == 0
        assert capsys.readouterr().out == said


@rows(
    "typed, meant",
    [
        ("lsit", None),  # as near to submit as to anything
        ("wiat", "wait"),
        ("est", "estimate"),
        ("jobs 5", "jobs show 5"),
        ("jobs retyr", "jobs retry"),
        ("jobs frobnicate", None),
        ("runs shwo", "runs show"),
        ("runs baseline chekc", "runs baseline check"),
        ("alerts silenec", "alerts silence"),
        ("probes list", "probes"),
        ("config chekc", "config check"),
        ("probes bset", "probes best"),
        ("probes frobnicate", None),
    ],
)
def test_a_command_that_does_not_exist_names_only_what_can_be_meant(
    typed: str, meant: str | None, capsys: Said
) -> None:
    assert run(typed.split()) == 2
    said = capsys.readouterr().err.splitlines()[0]
    assert said.partition("; ")[2] == ("" if meant is None else f"did you mean: andon {meant}?")


@rows(
    "typed, meant",
    [
        ("ps --gpu 3", "--device"),
        ("run --gpu 1 ls", "--gpus or --device"),
        ("run -n 2 ls", "--gpus"),
        ("lease --time 2h", "--for"),
        ("status --jsno", "--json"),
        ("-l 1", "andon watch"),
        ("watch --csv", "--format"),
        ("run --wait ls", "--timeout"),
        ("status --host node7", "--ssh"),
        ("status --frobnicate", None),
        ("cordon --json 0", None),  # --reason is only spelled like it
    ],
)
def test_an_option_that_does_not_exist_names_the_one_that_does_it(
    typed: str, meant: str | None, capsys: Said
) -> None:
    assert run(typed.split()) in (2, 125)
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("andon: No such option '-")
    assert said.partition("; ")[2] == ("" if meant is None else f"did you mean: {meant}?")


@rows(
    "typed, line",
    [
        ("cancel 3 --node n17 --url https://hub:1", "ssh -t n17 andon cancel 3"),
        ("cordon 0 --reason fan --node=n17", "ssh -t n17 andon cordon 0 --reason fan"),
        ("uncordon 0 --url https://hub:26366", "ssh -t hub andon uncordon 0"),
        ("submit --host node7 -- true --node 2", "ssh -t node7 andon submit -- true --node 2"),
        ("jobs hold 3 --node n17", "ssh -t n17 andon jobs hold 3"),
    ],
)
def test_a_command_for_this_machine_prints_the_line_to_type_on_the_other(
    typed: str, line: str, capsys: Said
) -> None:
    assert run(typed.split()) in (2, 125)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "andon: from here andon only reads other machines: run it there"
    assert said[1] == f"hint: {line}"


@pytest.mark.process
def test_a_notifier_that_the_server_has_not_read_yet_is_tried_here_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    config = tmp_path / "andon.toml"
    config.write_text('[[alerts.notifier]]\nname = "log"\nkind = "command"\ncommand = ["true"]\n')
    monkeypatch.setenv("ANDON_CONFIG", str(config))
    for words in (["alerts", "test"], ["alerts", "test", "log"]):
        assert run(words, FakeNode()) == 0
        said = capsys.readouterr()
        assert said.out == "log: sent\n"
        assert "log: tried by this command alone; a running server uses it once it is" in said.err


def test_why_job_means_the_job(capsys: Said) -> None:
    assert run(["why", "job", "9"]) == 2
    assert "did you mean: andon why --job 9?" in capsys.readouterr().err


def test_every_option_that_is_suggested_exists() -> None:
    context = click.Context(cli)
    known = {
        name
        for command in map(partial(cli.get_command, context), COMMANDS)
        for one in (command.params if command else ())
        for name in one.opts
    }
    for typed, meant in OPTION_SYNONYMS.items():
        for one in meant:
            assert one in known or one.removeprefix("andon ") in COMMANDS, typed


@rows(
    "typed, meant",
    [
        ("retry 3", "jobs retry 3"),
        ("requeue 3 4", "jobs requeue 3 4"),
        ("runs list", "runs"),
        ("runs ls --json", "runs --json"),
        ("jobs list", "jobs"),
        ("alerts list", "alerts"),
        ("leases list", "leases"),
        ("runs show list", "runs show list"),
        ("run list", "run list"),
    ],
)
def test_names_that_people_try_are_taken(typed: str, meant: str) -> None:
    assert named(typed.split()) == meant.split()


# Taking a GPU and giving it back.


class AtTerminal(io.StringIO):
    """Someone at a terminal who types this."""

    def isatty(self) -> bool:
        return True


def test_release_without_an_id_names_your_leases(book: Book, capsys: Said) -> None:
    assert run(["release"]) == 5
    assert "you hold no lease" in capsys.readouterr().err
    held = Granter(book, NODE).grant(request(1, devices=("3",)), LeaseTerms(), 0).held
    assert run(["release"]) == 2
    assert f"yours: andon release {held.lease.id} (GPU 3)" in capsys.readouterr().err
    held.release()


@pytest.mark.parametrize(("typed", "released"), [("y\n", True), ("\n", False), ("", False)])
def test_release_without_an_id_asks_about_your_only_lease(
    typed: str, released: bool, book: Book, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", AtTerminal(typed))
    held = Granter(book, NODE).grant(request(1, devices=("3",)), LeaseTerms(), 0).held
    node = FakeNode(farm(), leases=[lease_row(held.lease.id)])
    try:
        assert run(["release", "-m", "lunch"], node) == 0
        said = capsys.readouterr()
        assert f"your only lease is {held.lease.id}: GPU 3" in said.err
        assert ("nothing was released" in said.err) is not released
        assert node.leases.released == ({held.lease.id: "lunch"} if released else {})
    finally:
        held.release()


def test_release_without_an_id_lists_several_leases(book: Book, capsys: Said) -> None:
    wanted = [request(1, devices=(name,)) for name in ("3", "5")]
    held = [Granter(book, NODE).grant(one, LeaseTerms(), 0).held for one in wanted]
    try:
        assert run(["release"]) == 2
        said = capsys.readouterr().err
        for one, name in zip(held, ("3", "5"), strict=True):
            assert f"andon release {one.lease.id} (GPU {name})" in said
    finally:
        for one in held:
            one.release()


def test_release_of_several_goes_on_after_one_that_is_not_there(capsys: Said) -> None:
    node = FakeNode(farm(), leases=[lease_row("k7qm2")])
    assert run(["release", "nope", "k7qm2"], node) == 5
    said = capsys.readouterr()
    assert "there is no lease 'nope'" in said.err
    assert said.out == "released lease k7qm2\n"


def test_extend_without_an_id_means_the_lease_of_the_shell_or_the_only_one(
    book: Book, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = ["lease", "extend", "--for", "2h"]
    assert run(typed) == 5
    assert "you hold no lease" in capsys.readouterr().err
    terms = LeaseTerms(seconds=3600.0)
    first = Granter(book, NODE).grant(request(1, devices=("3",)), terms, 0).held
    assert run(typed) == 0
    assert f"lease {first.lease.id} now ends at" in capsys.readouterr().out
    second = Granter(book, NODE).grant(request(1, devices=("5",)), terms, 0).held
    assert run(typed) == 2
    assert f"andon lease extend {second.lease.id} (GPU 5)" in capsys.readouterr().err
    monkeypatch.setenv("ANDON_LEASE", second.lease.id)
    assert run(typed) == 0
    assert f"lease {second.lease.id} now ends at" in capsys.readouterr().out
    assert run([*typed, "--url", "http://127.0.0.1:1"]) == 2
    assert "which lease?" in capsys.readouterr().err
    first.release()
    second.release()


def test_a_mistake_in_lease_extend_names_its_help(capsys: Said) -> None:
    assert run(["lease", "extend", "k7qm2"]) == 2
    assert "hint: andon lease extend --help" in capsys.readouterr().err


def test_no_line_of_an_overview_is_cut_off(capsys: Said) -> None:
    for group in ("alerts", "config", "jobs", "probes", "runs", "runs baseline"):
        assert run([*group.split(), "--help"]) == 0
        commands = capsys.readouterr().out.partition("Commands:")[2]
        assert commands, group
        assert "..." not in commands, group


class Named(Book):
    """The book, whose leases have this name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def new_id(self, names: frozenset[str]) -> str:
        return self._name


@pytest.mark.parametrize("made", ["k7qm2", "3k7qm", "4k7qm"])
def test_release_of_a_gpu_names_your_lease_on_it(made: str, capsys: Said) -> None:
    held = Granter(Named(made), NODE).grant(request(1, devices=("3",)), LeaseTerms(), 0).held
    assert run(["release", "3"]) == 5
    assert f"GPU 3 is in your lease {held.lease.id}" in capsys.readouterr().err
    assert run(["release", "4"]) == 5
    assert "andon leases lists them" in capsys.readouterr().err
    held.release()


@pytest.mark.parametrize("command", ["lease", "run"])
def test_a_gpu_in_place_of_a_command_is_told_how_to_name_one(command: str, capsys: Said) -> None:
    assert run([command, "4"]) == 127
    assert "to name a GPU: -d 4" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["lease", "run"])
def test_a_line_of_shell_is_not_a_command(command: str, capsys: Said) -> None:
    assert run([command, "python train.py --lr 0.1"]) == 127
    assert "write its words without quotes, or: sh -c 'LINE'" in capsys.readouterr().err
    assert run([command, "LR=0.1", "python"]) == 127
    assert "to set a variable: env LR=0.1 COMMAND" in capsys.readouterr().err


@pytest.mark.process
def test_more_gpus_named_than_taken_is_said(capsys: Said) -> None:
    queued = ["submit", "--dry-run", "--simulate", "4"]
    for given, said in (
        (["-d", "0,1"], "1 of the 2 GPUs named is taken; for all of them: --gpus 2"),
        (["-d", "0", "-d", "1,2"], "1 of the 3 GPUs named is taken; for all of them: --gpus 3"),
        (["-d", "0,1", "--gpus", "1"], ""),
        (["-d", "0"], ""),
    ):
        assert run([*queued, *given, "--", "true"]) == 0
        assert capsys.readouterr().err == (f"andon: {said}\n" if said else "")


def test_a_refusal_lists_only_the_gpus_that_were_asked_for(book: Book) -> None:
    held = Granter(book, NODE).grant(request(1, devices=("3",)), LeaseTerms(), 0).held
    with pytest.raises(Conflict) as refused:
        Granter(book, NODE).grant(request(1, devices=("3",)), LeaseTerms(), 0)
    assert [line.partition(":")[0] for line in refused.value.mistakes] == ["GPU 3"]
    held.release()


# Silencing an alert, and being told.


@pytest.mark.parametrize("words", [["--rule", "fan", "2h"], ["--rule", "fan", "--for", "2h"]])
def test_both_ways_to_say_how_long_a_silence_lasts(words: list[str]) -> None:
    node = FakeNode(farm())
    assert run(["alerts", "silence", *words], node) == 0
    (made,) = node.alerts.page().silences
    assert (made.rule, made.until - made.since) == ("fan", 7200.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say what and for how long"),
        (["--for", "2h"], "name an alert"),
        (["fan@0", "--for", "2"], "'2' has no unit"),
        (["fan@0", "2h", "--for", "2h"], "one alert and one duration"),
        (["fan@0", "--for", "2h", "--rule", "fan"], "not both"),
    ],
)
def test_a_silence_that_is_not_clear_is_refused(words: list[str], said: str, capsys: Said) -> None:
    assert run(["alerts", "silence", *words]) == 2
    assert said in capsys.readouterr().err


def test_who_tries_the_notifiers_and_has_none_reads_how_to_add_slack(capsys: Said) -> None:
    assert "andon alerts notify add slack URL" in trial(Choices(), None)["note"]
    assert run(["config", "--help"]) == 0
    assert "andon alerts notify add slack URL" in capsys.readouterr().out


# Who used it last night.


@pytest.fixture
def server(state_folder: Path) -> Iterator[Proving]:
    """A server of this user's that runs here, with a history of no device."""
    folder = made_node_state(state_folder)
    (state_folder / "andon" / "token").touch(0o600)
    (state_folder / "andon" / "token").write_text(TOKEN)
    with proving() as made:
        made.body = b'{"items": []}'
        server_file.announce(folder, made.url, "127.0.0.1")
        yield made


def test_who_has_no_history_sees_that_of_the_machines_server(server: Proving) -> None:
    past = node_of(Choices()).past
    assert past.recorded
    assert past.devices() == []


def test_without_any_history_there_is_none(server: Proving) -> None:
    server.status = 503
    past = node_of(Choices()).past
    assert not past.recorded
    with pytest.raises(Unavailable, match="no history yet"):
        past.devices()


def test_an_empty_file_is_no_history_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a disk that was full at the first start leaves it."""
    (tmp_path / "empty.db").touch()
    monkeypatch.setenv("ANDON_HISTORY", str(tmp_path / "empty.db"))
    past = node_of(Choices()).past
    assert not past.recorded
    with pytest.raises(Unavailable, match=r"no history yet: .*empty\.db is empty"):
        past.devices()


def test_a_store_that_is_named_is_never_replaced_by_a_servers(
    server: Proving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_HISTORY", str(tmp_path / "other.db"))
    past = node_of(Choices()).past
    assert not past.recorded


# Queueing.


@pytest.mark.process
def test_a_command_that_does_not_exist_is_said_when_it_is_queued(
    tmp_path: Path, capsys: Said
) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n")
    for program, why in (
        ("nosuchcommand", "nosuchcommand: command not found; the job fails if"),
        (str(tmp_path), "is a directory; the job fails if"),
        (str(script), f"not executable (chmod +x {script}); the job fails if"),
        ("true", None),
    ):
        assert run(["submit", "--dry-run", "--simulate", "2", "--", program]) == 0
        said = capsys.readouterr()
        assert "would queue 1 job" in said.out
        assert "asks for 1 simulated GPU\n" in said.out
        assert why is None or why in said.err
        assert (why is None) == (said.err == "")


# What Tab does.


def completed(*words: str) -> list[str]:
    """The type and the value of each completion of the last word."""
    shell = ShellComplete(cli, {}, "andon", "_ANDON_COMPLETE")
    return [f"{one.type} {one.value}" for one in shell.get_completions(list(words[:-1]), words[-1])]


def test_the_shell_completes_your_leases(book: Book) -> None:
    held = Granter(book, NODE).grant(request(1, devices=("3",)), LeaseTerms(), 0).held
    name = held.lease.id
    for words in (("release", ""), ("lease", "extend", name[:2]), ("run", "--lease", "")):
        assert completed(*words) == [f"plain {name}"], words
    assert completed("release", f"{name}z") == []
    held.release()


def test_the_shell_completes_the_files_of_a_command() -> None:
    for words in (("run", "--", "python", "tr"), ("submit", "tr"), ("lease", "-d", "3", "tr")):
        assert completed(*words) == ["file tr"], words
    assert completed("lease", "ex") == ["plain extend"]


def test_the_shell_completes_jobs_and_cancels_only_what_has_not_ended() -> None:
    assert completed("logs", "") == [], "no job was ever queued"
    folder = open_jobs_folder()
    spec = JobSpec(0, "train", ("true",), "/", DeviceRequest(1, 1), 1.0)
    first, *_ = folder.submit([spec] * 11)
    folder.note(first.number, "cancelled", JobNote(1, 1.0, "ada"))
    assert completed("logs", "")[:2] == ["plain 11", "plain 10"]
    assert "plain 1" in completed("logs", "")
    assert "plain 1" not in completed("cancel", "")
    assert completed("why", "--job", "1") == ["plain 11", "plain 10", "plain 1"]
