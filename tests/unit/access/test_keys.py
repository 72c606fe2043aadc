"""Sessions: whose they are, how many there may be, and what a restart keeps of them."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from andon.access.gate import ShownKey
from andon.access.roles import Identity, Role
from andon.access.saved_sessions import (
    SavedSession,
    dump_sessions,
    load_sessions,
    sessions_key,
)
from andon.host.users import user_name
from andon.web.transport.keys import MOST_EACH, MOST_SESSIONS, SESSION_SECONDS, Keys
from andon.web.transport.session_file import NAME, SessionFile
from tests.support.disks import file_limit

TOKEN = "t" * 43
KEY = sessions_key(TOKEN)
DORA, ERIK = Identity(Role.USER, 1234, "dora"), Identity(Role.USER, 1235, "erik")
PEOPLE = {1234: "dora", 1235: "erik", 0: "root"}


def opened(
    folder: Path, token: str = TOKEN, now: float = 1e9, people: Mapping[int, str] = PEOPLE
) -> Keys:
    known = {**people, os.getuid(): user_name(os.getuid())}
    return Keys(token, wall=lambda: now, file=SessionFile(folder, token), name_of=known.get)


def signed_in(keys: Keys, who: Identity) -> str:
    secret = keys.exchange(keys.new_code(who))
    assert secret is not None
    return secret


def restarted(
    folder: Path,
    keys: Keys,
    token: str = TOKEN,
    later: float = 0.0,
    people: Mapping[int, str] = PEOPLE,
) -> Keys:
    """A new server on the same folder."""
    assert keys._file is not None
    keys._file.close()
    return opened(folder, token, keys._wall() + later, people)


@pytest.fixture
def sessions(tmp_path: Path) -> Keys:
    return opened(tmp_path)


def test_a_session_is_its_persons(sessions: Keys) -> None:
    assert sessions.identify(signed_in(sessions, DORA)) == (ShownKey.SESSION, DORA)
    assert sessions.identify(TOKEN)[1].by_token
    assert sessions.identify("x")[1].role is Role.ANONYMOUS


def test_sessions_and_their_roles_survive_a_restart(tmp_path: Path, sessions: Keys) -> None:
    dora, owner = signed_in(sessions, DORA), signed_in(sessions, sessions.owner)
    brief = sessions.exchange(sessions.new_code(ERIK), brief=True)
    after = restarted(tmp_path, sessions)
    assert after.identify(dora) == (ShownKey.SESSION, DORA)
    assert after.identify(owner)[1].role is Role.OWNER
    assert after.grade(brief) is ShownKey.WRONG
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert dora not in (tmp_path / NAME).read_text()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_session_that_ended_does_not_come_back(tmp_path: Path, sessions: Keys) -> None:
    dora, erik = signed_in(sessions, DORA), signed_in(sessions, ERIK)
    assert sessions.end_session(dora)
    again = restarted(tmp_path, sessions)
    assert (again.grade(dora), again.grade(erik)) == (ShownKey.WRONG, ShownKey.SESSION)
    assert again.revoke(ERIK.uid) == 1
    assert restarted(tmp_path, again).grade(erik) is ShownKey.WRONG


@pytest.mark.parametrize("later", [SESSION_SECONDS, -SESSION_SECONDS])
def test_a_session_is_never_longer_than_it_was_given(
    tmp_path: Path, sessions: Keys, later: float
) -> None:
    """Its time is over, or the clock was set back."""
    dora = signed_in(sessions, DORA)
    assert restarted(tmp_path, sessions, later=later).grade(dora) is ShownKey.WRONG


def test_a_new_token_ends_the_sessions(tmp_path: Path, sessions: Keys) -> None:
    dora = signed_in(sessions, DORA)
    assert restarted(tmp_path, sessions, token="u" * 43).grade(dora) is ShownKey.WRONG


def test_a_uid_that_another_person_has_now_has_no_session(tmp_path: Path, sessions: Keys) -> None:
    dora = signed_in(sessions, DORA)
    assert restarted(tmp_path, sessions, people={1234: "frida"}).grade(dora) is ShownKey.WRONG
    assert restarted(tmp_path, sessions, people={}).grade(dora) is ShownKey.WRONG


def test_while_a_server_runs_a_new_owner_of_a_uid_ends_the_earlier_ones_sessions(
    sessions: Keys,
) -> None:
    dora, erik = signed_in(sessions, DORA), signed_in(sessions, ERIK)
    frida = signed_in(sessions, Identity(Role.USER, 1234, "frida"))
    assert [sessions.grade(one) is ShownKey.SESSION for one in (dora, erik, frida)] == [
        False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: b"\0" * 5000,
        lambda content: b"{}\n" + content.partition(b"\n")[2],
        lambda content: content.replace(b"1234", b"0", 1),
        lambda content: content.replace(b'"dora"', b'"root"'),
        lambda content: content.replace(b"false", b"true"),
        lambda content: content.partition(b"\n")[0],
        lambda content: b"[" * 100_000 + content,
        lambda content: content * 5000,
    ],
)
def test_a_file_that_was_touched_opens_nothing(
    tmp_path: Path, sessions: Keys, damage: Callable[[bytes], bytes]
) -> None:
    dora = signed_in(sessions, DORA)
    assert sessions._file is not None
    sessions._file.close()
    file = tmp_path / NAME
    file.write_bytes(damage(file.read_bytes()))
    after = opened(tmp_path)
    assert after.grade(dora) is ShownKey.WRONG
    assert after.identify(signed_in(after, DORA)) == (ShownKey.SESSION, DORA)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(dump_sessions([], KEY))
    (tmp_path / NAME).symlink_to(tmp_path / "target")
    keys = Keys(TOKEN, file=SessionFile(tmp_path, TOKEN))
    signed_in(keys, DORA)
    assert keys._file is not None
    keys._file.close()
    assert json.loads((tmp_path / "target").read_bytes().partition(b"\n")[0])["sessions"] == []
    assert not (tmp_path / NAME).is_symlink()


def test_a_full_disk_keeps_nobody_from_signing_in(
    tmp_path: Path, sessions: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    dora = signed_in(sessions, DORA)
    assert sessions._file is not None
    sessions._file.save_soon([])  # whatever was pending is written
    with file_limit(0):
        erik = signed_in(sessions, ERIK)
        sessions._file.close()
    assert (sessions.grade(dora), sessions.grade(erik)) == (ShownKey.SESSION, ShownKey.SESSION)
    assert "sessions cannot be kept for the next start" in caplog.text
    assert [path.name for path in tmp_path.iterdir() if path.name != NAME] == []


def test_one_user_displaces_no_other() -> None:
    keys = Keys(TOKEN)
    dora, owner, code = signed_in(keys, DORA), signed_in(keys, keys.owner), keys.new_code(DORA)
    of_erik = [signed_in(keys, ERIK) for _ in range(2 * MOST_SESSIONS)]
    for _ in range(2 * MOST_SESSIONS):
        keys.new_code(ERIK)
    assert (keys.grade(dora), keys.grade(owner)) == (ShownKey.SESSION, ShownKey.SESSION)
    assert keys.code_owner(code) == DORA
    assert sum(keys.grade(one) is ShownKey.SESSION for one in of_erik) == MOST_EACH
    assert keys.grade(of_erik[-1]) is ShownKey.SESSION


def test_many_users_displace_no_owner_and_the_table_is_bounded() -> None:
    keys = Keys(TOKEN)
    owner = signed_in(keys, keys.owner)
    for number in range(2 * MOST_SESSIONS):
        signed_in(keys, Identity(Role.USER, 2000 + number, f"u{number}"))
    assert keys.grade(owner) is ShownKey.SESSION
    assert len(keys._sessions) == MOST_SESSIONS


def test_a_command_gives_way_before_a_browser() -> None:
    keys = Keys(TOKEN)
    browsers = [signed_in(keys, DORA) for _ in range(MOST_EACH - 1)]
    for _ in range(5):
        assert keys.exchange(keys.new_code(DORA), brief=True)
    assert all(keys.grade(one) is ShownKey.SESSION for one in browsers)


def test_the_file_says_whose_and_until_when_and_no_secret() -> None:
    saved = [SavedSession(b"\1" * 32, DORA, 5e8), SavedSession(b"\2" * 32, ERIK, 6e8)]
    content = dump_sessions(saved, KEY)
    assert load_sessions(content, KEY, 4.9e8, 2e8, 0, PEOPLE.get) == saved
    assert load_sessions(content, KEY, 5.5e8, 2e8, 0, PEOPLE.get) == saved[1:]
    assert load_sessions(content, sessions_key("other"), 4e8, 1e9, 0, PEOPLE.get) is None
    [dora, _] = load_sessions(content, KEY, 4.9e8, 2e8, 1234, PEOPLE.get) or []
    assert dora.who.role is Role.OWNER  # it is decided anew who runs the server
