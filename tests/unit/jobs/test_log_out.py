"""What a log-out does to jobs: the measured table, and how its facts are read from files."""

import os
from pathlib import Path

import pytest

from andon.host.users import user_name
from andon.jobs.log_out import read_log_out, scope_prefix
from andon.jobs.rules.log_out import (
    LogOutEffect,
    LogOutFacts,
    Place,
    log_out_effect,
    log_out_text,
    login_settings,
    place_of_cgroup,
    wants_scope,
)

# KillUserProcesses, lingering, place -> in a scope of the user's systemd?, what happens, a word of
# the sentence. Measured with systemd 252.
TABLE = [
    (False, False, Place.SESSION, False, LogOutEffect.LIVES, "keep running"),
    (False, True, Place.SESSION, False, LogOutEffect.LIVES, "keep running"),
    (True, False, Place.SESSION, False, LogOutEffect.KILLED, "KillUserProcesses=yes"),
    (True, True, Place.SESSION, True, LogOutEffect.LIVES, "keep running"),
    (False, False, Place.USER_MANAGER, False, LogOutEffect.KILLED, "lingering is off"),
    (True, True, Place.USER_MANAGER, False, LogOutEffect.LIVES, "keep running"),
    (False, False, Place.SERVICE, False, LogOutEffect.LOSES_SHARED_MEMORY, "/dev/shm"),
    (True, True, Place.SERVICE, False, LogOutEffect.LIVES, "keep running"),
    (True, False, Place.OUTSIDE, False, LogOutEffect.LIVES, "keep running"),
]


def test_the_measured_table() -> None:
    wrong = []
    for kills, lingers, place, scope, effect, word in TABLE:
        facts = LogOutFacts(True, kills, True, lingers, 1000, place, can_scope=True)
        found = wants_scope(facts), log_out_effect(facts), word in log_out_text(facts)
        if found != (scope, effect, True):
            wrong.append((kills, lingers, place, found))
    assert wrong == []


def test_every_sentence_that_warns_names_what_helps() -> None:
    every = [
        LogOutFacts(True, kills, ipc, lingers, uid, place, can)
        for kills in (True, False)
        for ipc in (True, False)
        for lingers in (True, False)
        for uid in (0, 1000)
        for place in Place
        for can in (True, False)
    ]
    for facts in every:
        words = log_out_text(facts)
        assert (log_out_effect(facts) is LogOutEffect.LIVES) == (words.endswith("when you log out"))
        if log_out_effect(facts) is not LogOutEffect.LIVES:
            assert "enable-linger" in words or "systemctl --user status" in words
        assert not wants_scope(facts) or facts.lingering


def test_without_a_login_manager_nothing_ends() -> None:
    assert log_out_effect(LogOutFacts(kills=True, place=Place.SESSION)) is LogOutEffect.LIVES


def test_the_place_comes_from_the_cgroup() -> None:
    rows = {
        "0::/user.slice/user-1000.slice/session-3.scope": Place.SESSION,
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope": Place.USER_MANAGER,
        "0::/system.slice/andon.service": Place.SERVICE,
        "0::/": Place.OUTSIDE,
        "4:memory:/a.service\n1:name=systemd:/user.slice/user-0.slice/session-c1.scope\n0::/": (
            Place.SESSION
        ),
        "": Place.OUTSIDE,
    }
    assert {text: place_of_cgroup(text) for text in rows} == rows


def test_later_files_win_and_comments_of_the_shipped_file_are_defaults() -> None:
    shipped = "[Login]\n#KillUserProcesses=no\n#RemoveIPC=yes\n"
    assert login_settings(shipped, [])["KillUserProcesses"] == "no"
    ours = "[Login]\nKillUserProcesses=yes\n"
    elsewhere = "[Other]\nKillUserProcesses=no\n"
    assert login_settings(shipped, [ours, elsewhere])["KillUserProcesses"] == "yes"


def a_machine(root: Path, user: str, *, lingers: bool) -> Path:
    for folder in (
        "run/systemd/system",
        "etc/systemd/logind.conf.d",
        "usr/lib/systemd",
        "proc/self",
    ):
        (root / folder).mkdir(parents=True)
    (root / "usr/lib/systemd/logind.conf").write_text("[Login]\n#KillUserProcesses=no\n")
    drop_in = "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n"
    (root / "etc/systemd/logind.conf.d/10-kill.conf").write_text(drop_in)
    (root / "proc/self/cgroup").write_text("0::/user.slice/user-1.slice/session-3.scope\n")
    (root / "run/user/4242/systemd").mkdir(parents=True)
    (root / "run/user/4242/systemd/private").touch()
    if lingers:
        (root / "var/lib/systemd/linger").mkdir(parents=True)
        (root / "var/lib/systemd/linger" / user).touch()
    return root


@pytest.mark.parametrize("lingers", [True, False])
def test_facts_are_read_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lingers: bool
) -> None:
    (tmp_path / "systemd-run").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    facts = read_log_out(a_machine(tmp_path / "root", user_name(4242), lingers=lingers), 4242)
    assert facts == LogOutFacts(True, True, True, lingers, 4242, Place.SESSION, can_scope=True)
    prefix = scope_prefix("andon-job-12", facts)
    assert ("systemd-run" in prefix) is lingers
    if lingers:
        assert prefix[:2] == ("env", "XDG_RUNTIME_DIR=/run/user/4242")
        assert "--unit=andon-job-12" in prefix


def test_root_is_excluded_by_default(tmp_path: Path) -> None:
    a_machine(tmp_path, "root", lingers=False)
    drop_in = tmp_path / "etc/systemd/logind.conf.d/10-kill.conf"
    drop_in.write_text("[Login]\nKillUserProcesses=yes\n")
    assert not read_log_out(tmp_path, 0).kills
    assert read_log_out(tmp_path, 4242).kills


def test_a_machine_without_systemd(tmp_path: Path) -> None:
    assert read_log_out(tmp_path, 7) == LogOutFacts(uid=7)
