"""docs/admin.md and the units of `andon setup`: each says what the other and the code do."""

import re
import subprocess
from pathlib import Path

import pytest

from andon.cli.catalogue import COMMANDS, load
from andon.cli.commands.watch.open import URL
from andon.errors import Invalid
from andon.host.state.user_folder import HISTORY
from andon.host.system_files import SYSTEM, TMPFILES, wanted_files
from andon.leases.book.places import COMMON_BOOK, SYSTEM_BOOK
from tests.conftest import REPOSITORY
from tests.support.rows import rows

PAGE = (REPOSITORY / "docs" / "admin.md").read_text(encoding="utf-8")
FILES = wanted_files("/opt/andon/bin/python")
UNIT = FILES[f"{SYSTEM}/andon.service"]
SET = re.compile(r"^(\w+)=(.*)$", re.MULTILINE)
OPTIONS = dict(SET.findall(UNIT))
BREAKING = {
    "PrivateTmp": "the lease book may be in /tmp",
    "PrivateDevices": "it hides the driver's devices",
    "DeviceAllow": "it hides the driver's devices",
    "DevicePolicy": "it hides the driver's devices",
    "ProtectClock": "it implies DeviceAllow",
    "ProtectProc": "the processes of others are read",
    "ProcSubset": "the processes of others are read",
    "PrivatePIDs": "the processes of others are read",
    "PrivateUsers": "owners would be unknown",
    "PrivateNetwork": "users sign in through this network namespace",
    "ProtectKernelLogs": "Xids are read from the kernel's log",
    "ProtectKernelModules": "the driver's library may load its module",
    "MemoryDenyWriteExecute": "ctypes needs such memory",
}


def commands(text: str) -> list[list[str]]:
    """Every `andon …` of a text that is typed: in code blocks and in code."""
    lines = re.findall(r"^ {4}(.*)$", text, re.MULTILINE) + re.findall(r"`([^`\n]+)`", text)
    found = (re.search(r"(?:^|(?:sudo|ssh node) |=\S+ )andon( .*)?$", one) for one in lines)
    typed = ((one[1] or "").partition("#")[0].split() for one in found if one is not None)
    return [words for words in typed if words and words[0] not in ("serve", "agent")]


@rows("words", commands(PAGE), ids=" ".join)
def test_what_the_page_types_can_be_typed(words: list[str]) -> None:
    command = load(COMMANDS[words[0]].target)
    given = ["x" if word in ("ID", "FILE") else word for word in words[1:]]
    if given or words[0] != "run":  # its name alone is no command line
        command.make_context(words[0], given).close()


def test_the_page_shows_the_commands_of_an_administrator() -> None:
    typed = {words[0] for words in commands(PAGE)}
    assert typed >= {"setup", "doctor", "alerts", "config", "audit", "open", "release", "leases"}


def test_the_agent_reads_what_the_server_reads() -> None:
    agent = dict(SET.findall(FILES[f"{SYSTEM}/andon-agent.service"]))
    assert [name for name in agent if name in BREAKING] == []
    assert agent["RestartPreventExitStatus"] == OPTIONS["RestartPreventExitStatus"]


def test_no_option_of_the_unit_hides_what_the_server_reads() -> None:
    assert {name: BREAKING[name] for name in OPTIONS if name in BREAKING} == {}
    explained = UNIT.partition("# Left out on purpose:")[2]
    assert [name for name in BREAKING if not re.search(rf"\b{name}\b", explained)] == []
    assert OPTIONS["ProtectSystem"] == "full", "strict would forbid /run/andon"
    families = OPTIONS["RestrictAddressFamilies"].split()
    assert {"AF_UNIX", "AF_INET", "AF_INET6"} <= set(families)


def test_leases_outlive_the_service_and_only_wrong_settings_end_it() -> None:
    assert OPTIONS["KillMode"] == "process"
    assert OPTIONS["RestartPreventExitStatus"] == str(Invalid.exit_code), "all else may heal"


def test_the_unit_and_the_page_name_the_same_places() -> None:
    program, *_, command, _ = OPTIONS["ExecStart"].split()
    program = program.replace("/python", "/andon")
    assert command in COMMANDS
    assert OPTIONS["Environment"] == "XDG_STATE_HOME=/var/lib"
    state = f"/var/lib/{OPTIONS['StateDirectory']}"
    named = (
        program.removesuffix("/bin/andon"),
        f"{state}/token",
        f"{state}/nodes",
        TMPFILES,
        HISTORY,
        URL,
    )
    places = (str(SYSTEM_BOOK), str(COMMON_BOOK), "/etc/andon/andon.toml", "~/.local/state/andon")
    assert [one for one in (*named, *places) if one not in PAGE] == []
    assert OPTIONS["StateDirectoryMode"] == "0700", "the server refuses any other"


def test_what_is_removed_is_all_that_lies_around() -> None:
    table = PAGE.partition("## What lies where")[2].partition("##")[0]
    removed = PAGE.partition("## Uninstalling")[2]
    paths = [one for one in re.findall(r"`([/~][^`]*)`", table) if one.startswith("/")]
    gone = " ".join(re.findall(r"rm -rf (.*)", removed)).split()
    left = [p for p in paths if not any(p == one or p.startswith(f"{one}/") for one in gone)]
    assert left == []


@pytest.mark.process
def test_the_backup_makes_no_copy_where_there_is_no_history(tmp_path: Path) -> None:
    """A21: `sqlite3` made an empty database and copied it."""
    recipe = re.search(r"^    sudo (sh -c 'cd .*\.backup .*')$", PAGE, re.MULTILINE)
    assert recipe is not None
    folder, copy = tmp_path / "nodes" / "abc", tmp_path / "copy.db"
    folder.mkdir(parents=True)
    stand_in = tmp_path / "sqlite3"
    stand_in.write_text(f"#!/bin/sh\ntouch history.db && cp history.db {copy}\n")
    stand_in.chmod(0o755)
    line = recipe[1].replace("/var/lib/andon/nodes", str(tmp_path / "nodes"))
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    none = subprocess.run(line, shell=True, env=path, check=False)
    assert (none.returncode != 0, list(folder.iterdir()), copy.exists()) == (True, [], False)
    (folder / "history.db").write_bytes(b"SQLite")
    assert subprocess.run(line, shell=True, env=path, check=False).returncode == 0
    assert copy.read_bytes() == b"SQLite"
