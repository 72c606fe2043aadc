"""A reservation as two users see it: every command honours it."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration.machine import on_a_machine, told
from tests.integration.parts import need_root
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="two users need setpriv")
OTHER = 12_345
Typed = Callable[..., Any]


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    """Runs a command as root, or as another user."""
    need_root()
    tmp_path.chmod(0o755)
    for above in tmp_path.parents[:3]:
        above.chmod(above.stat().st_mode | 0o011)

    def run(
        *words: str,
        uid: int = 0,
        begun: bool = False,
        zone: str = "Europe/Berlin",
        module: str = "-mandon.cli",
    ) -> Any:
        home = tmp_path / f"home-{uid}"
        home.mkdir(exist_ok=True)
        os.chown(home, uid, uid)
        drop = ("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups") * (uid != 0)
        env = {
            **os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"), "ANDON_LEASE_DIR": str(tmp_path / "book"),
            "ANDON_SIMULATE_SCENARIO": "idle", "ANDON_PORT": "28997", "COLUMNS": "120",
            "TZ": zone, "ANDON_SIMULATE": "4" if module == "-c" else "",
        }  # fmt: skip
        command = [*drop, sys.executable, "-P", module, *words]
        if begun:
            pipe = subprocess.PIPE
            return subprocess.Popen(command, cwd="/", env=env, text=True, stdin=pipe, stdout=pipe)
        return subprocess.run(
            command, cwd="/", env=env, text=True, capture_output=True, timeout=60, check=False
        )

    return run


SIM = ("--simulate", "4")


def test_the_session_of_two_users(typed: Typed) -> None:
    made = typed("reserve", *SIM, "--gpus", "2", "--from", "2h", "--for", "12h", "--name", "paper")
    assert re.fullmatch(r"reserved r1: GPU 0, 1, .* to .* \(paper\)\n", made.stdout), (
        made.stdout + made.stderr
    )
    free = typed("free", *SIM, uid=OTHER)
    assert "2 of 4 free: GPU 2, 3" in free.stdout
    assert "reserved by root in 2 h; free for a shorter --for" in free.stdout
    refused = typed("run", *SIM, "--gpus", "3", "--no-wait", "--", "true", uid=OTHER)
    assert refused.returncode == 125
    assert "GPU 0: reserved by root in 2 h; free for a shorter --for" in refused.stderr
    short = typed(
        "run", *SIM, "-d", "0", "--for", "1h", "--no-wait", "--", "echo", "yes", uid=OTHER
    )
    assert (short.returncode, short.stdout) == (0, "yes\n"), short.stderr
    other = typed("reserve", *SIM, "-d", "1", "--from", "3h", "--for", "1h", uid=OTHER)
    assert other.returncode == 6
    assert "1 GPU wanted, 0 not reserved in that time" in other.stderr
    denied = typed("reserve", "cancel", "r1", uid=OTHER)
    assert denied.returncode == 4
    assert "reservation r1 is root's" in denied.stderr
    moved = typed("reserve", "change", "r1", "--from", "5h")
    assert moved.stdout.startswith("changed r1: GPU 0, 1, "), moved.stderr
    listed = json.loads(typed("reservations", "--json", uid=OTHER).stdout)
    assert listed["schema"] == "andon.reservations/1"
    assert [one["id"] for one in listed["reservations"]] == ["r1"]
    assert typed("reserve", "cancel", "r1").returncode == 0
    assert "4 of 4 free" in typed("free", *SIM, uid=OTHER).stdout


def test_its_owner_gets_the_reserved_devices_in_their_time(typed: Typed) -> None:
    typed("run", *SIM, "--", "true")  # the book is root's
    assert typed("reserve", *SIM, "-d", "2", "--for", "2h", uid=OTHER).returncode == 0
    root = typed("run", *SIM, "--gpus", "4", "--no-wait", "--", "true")
    assert f"GPU 2: reserved by {OTHER} for another 2 h" in root.stderr, root.stderr
    own = typed("run", *SIM, "--no-wait", "--", "true", uid=OTHER)
    assert "running on GPU 2 " in own.stderr
    assert "in use" in typed("reservations").stdout
    assert typed("reserve", "cancel", "r1").returncode == 0, "root may cancel anyone's"


def test_a_lease_is_not_extended_into_a_reservation(typed: Typed) -> None:
    typed("reserve", *SIM, "-d", "0", "--from", "2h", "--for", "1h")
    script = "echo $ANDON_LEASE; read _"
    words = ("lease", *SIM, "-d", "0", "--for", "1h", "--no-wait", "sh", "-c", script)
    with typed(*words, uid=OTHER, begun=True) as holder:
        lease = holder.stdout.readline().strip()
        refused = typed("lease", "extend", lease, "--for", "3h", uid=OTHER)
        assert refused.returncode == 6
        assert re.search("root has reserved its GPUs in (2 h|1 h 59 min)", refused.stderr)
        extended = typed("lease", "extend", lease, "--for", "90m", uid=OTHER)
        assert "now ends at" in extended.stdout, extended.stderr
        holder.stdin.close()


def _change(month: int) -> date:
    """The next day on which Berlin's clocks change in this month: its last Sunday."""
    today = date.today()
    days = (today + timedelta(days) for days in range(1, 400))
    return next(day for day in days if (day.month, day.isoweekday()) == (month, 7) and day.day > 24)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--for", "2h", "--until", "3h"), "needs one of --for and --until"),
        ((), "needs one of --for and --until"),
        (("--from", "yesterday", "--for", "1h"), "is in the past"),
        (("--from", "5h", "--until", "4h"), "ends after it begins"),
        (("--gpus", "9", "--for", "1h"), "9 GPUs requested"),
        (("--from", "9d", "--for", "1h"), "to reserve 7 d ahead; this one begins in 9 d"),
        (("--from", "400d", "--for", "1h"), "a reservation begins within 366 d"),
        (("--for", "49h",), "to reserve 2 d in seven days"),
        (("--gpus", "3", "--for", "1h"), "to reserve 2 GPUs of 4 at a time"),
        (("--weekly", "3", "--for", "1h"), "to reserve 7 d ahead"),
        (("--weekly", "0", "--for", "1h"), "0 is not in the range 1<=x<=53"),
        (("--shared", "--memory", "2GiB", "--for", "1h"), "is for whole GPUs"),
        (("--from", "25:00", "--for", "1h"), "25:00"),
        (("--from", "18:00 Mars/Olympus", "--for", "1h"), "is not a time"),
        (("--from", f"{_change(3):%Y-%m-%d}T02:30", "--for", "1h"), "does not exist: the clocks"),
        (("--from", f"{_change(10):%Y-%m-%d}T02:30", "--for", "1h"), "comes twice: the clocks"),
    ],
)  # fmt: skip
def test_what_cannot_be_reserved_is_one_sentence(
    typed: Typed, words: tuple[str, ...], reason: str
) -> None:
    typed("reserve", *SIM, "--from", "1h", "--for", "1m")  # root's: the book is not the other's
    done = typed("reserve", *SIM, *words, uid=OTHER)
    assert done.returncode not in (0, 1), done.stdout
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_zone_is_one_sentence(typed: Typed) -> None:
    done = typed("reserve", *SIM, "--from", "2h", "--for", "1h", zone="Mars/Olympus")
    assert done.returncode == 2
    assert "the time zone TZ='Mars/Olympus' is not known here" in done.stderr


def test_weekly_is_at_the_same_time_of_the_week_across_dst(typed: Typed) -> None:
    thursday = _change(3) - timedelta(3)
    march = f"{thursday:%Y-%m-%d}T18:00"
    made = typed("reserve", *SIM, "--from", march, "--for", "12h", "--weekly", "2")
    assert made.returncode == 0, made.stderr
    listed = json.loads(typed("reservations", "--json").stdout)["reservations"]
    first, second = listed
    assert (first["id"], second["id"]) == ("r1", "r2")
    assert second["begins"] - first["begins"] == 7 * 86_400 - 3600, "the clocks went forward"
    assert {one["ends"] - one["begins"] for one in listed} == {12 * 3600.0}
    shown = typed("reservations").stdout.splitlines()
    assert all("18:00" in line for line in shown[1:])


def test_what_is_free_at_a_time_to_come(typed: Typed) -> None:
    typed("reserve", *SIM, "-d", "0,1", "--gpus", "2", "--from", "2h", "--for", "4h")
    then = typed("free", *SIM, "--gpus", "3", "--at", "3h", uid=OTHER)
    assert then.returncode == 1
    assert "no: 3 GPUs requested, 2 free" in then.stdout
    assert "reserved by root (r1)" in then.stdout
    assert typed("free", *SIM, "--gpus", "3", "--at", "3h").returncode == 0, "they are root's"
    now = typed("free", *SIM, "--gpus", "4", "--next", uid=OTHER)
    assert re.match(r"4 GPUs are free now, for (2 h|1 h 59 min): GPU 0–3", now.stdout), now.stdout
    words = ("free", *SIM, "--gpus", "4", "--next", "--for", "3h")
    after = typed(*words, uid=OTHER)
    assert re.match(r"4 GPUs will be free from .* \(in (6 h|5 h 59 min)\): GPU 0–3", after.stdout)
    value = json.loads(typed(*words, "--json", uid=OTHER).stdout)
    assert (value["available"], value["until"]) == (True, None)
    for wrong in (("--at", "3h", "--next"), ("--for", "1h"), ("--at", "yesterday")):
        assert typed("free", *SIM, *wrong).returncode == 2, wrong


def test_a_job_starts_in_its_reservation(typed: Typed) -> None:
    typed("run", *SIM, "--", "true")  # the book is root's
    unknown = typed("submit", *SIM, "--reservation", "r1", "--", "true", uid=OTHER)
    assert unknown.returncode == 5
    assert "there is no reservation 'r1'" in unknown.stderr
    typed("reserve", *SIM, "-d", "3", "--from", "1h", "--for", "1h", uid=OTHER)
    submitted = typed("submit", *SIM, "--reservation", "r1", "--", "true", uid=OTHER)
    assert submitted.returncode == 0, submitted.stderr
    try:
        ends = time.monotonic() + 30
        while "waits for reservation r1" not in (seen := typed("jobs", uid=OTHER).stdout):
            assert time.monotonic() < ends, seen
            time.sleep(0.2)
        assert typed("reserve", "change", "r1", "--from", "1s", uid=OTHER).returncode == 0
        done = typed("jobs", "wait", "1", "--timeout", "30", uid=OTHER)
        assert done.returncode == 0, done.stderr + typed("jobs", uid=OTHER).stdout
        (run,) = json.loads(typed("runs", "--json", uid=OTHER).stdout)["runs"]
        assert [one["index"] for one in run["devices"]] == [3]
        words = ("--begin", "3s", "--reservation", "r1", "--", "true")
        late = typed("submit", *SIM, *words, uid=OTHER)
        assert late.returncode == 0, late.stderr
        typed("reserve", "cancel", "r1", uid=OTHER)
        assert typed("jobs", "wait", "2", "--timeout", "30", uid=OTHER).returncode == 1
        assert "reservation r1 is over" in typed("jobs", "--all", uid=OTHER).stdout
    finally:
        typed("cancel", "--all", uid=OTHER)


def test_the_end_of_a_job_is_noted_for_the_reservation_that_waited(
    typed: Typed, tmp_path: Path
) -> None:
    typed("run", *SIM, "--", "true")  # the book is root's
    os.mkfifo(pipe := tmp_path / "pipe")
    pipe.chmod(0o666)
    assert typed("submit", *SIM, "-d", "0", "--", "cat", str(pipe), uid=OTHER).returncode == 0
    wait_for(lambda: "running" in typed("jobs", uid=OTHER).stdout)
    made = typed("reserve", *SIM, "-d", "0", "--from", "1s", "--for", "1h")
    assert "lease" in made.stdout, made.stderr
    wait_for(lambda: "waits for an older lease" in typed("reservations").stdout)
    folder = tmp_path / "book" / "reservations"
    for note in folder.glob("*.note"):
        note.unlink()
    pipe.write_text("")
    wait_for(lambda: list(folder.glob("r1-0-blocked-*.note")))
    assert "now, not used yet" in typed("reservations").stdout


def test_the_library_extends_no_lease_into_a_reservation(typed: Typed) -> None:
    typed("reserve", *SIM, "-d", "0", "--from", "2h", "--for", "1h")
    script = """
import andon
with andon.lease(1, devices="0", seconds="1h", timeout=0, simulated=True) as held:
    before = held.until
    try:
        held.extend("3h")
    except andon.errors.Conflict as error:
        print(error.reason)
    print(held.until == before)
    held.extend("90m")
    print(held.until > before)
"""
    done = typed(script, module="-c", uid=OTHER)
    assert done.returncode == 0, done.stderr
    reason, *rest = done.stdout.splitlines()
    assert re.match("root has reserved its GPUs in (2 h|1 h 59 min)", reason)
    assert rest == ["True", "True"]


def test_roots_policy_says_who_reserves_how_much_and_how_long_it_is_kept() -> None:
    said = on_a_machine(
        r"""
andon setup >/dev/null
mkdir -p /etc/andon
policy() { printf "$1" > /etc/andon/policy.toml; }
as() { uid=$1; shift; user $uid "$PYTHON" -P -m andon.cli "$@" 2>&1 || true; }
kept() { as 1000 reservations --json; }
policy 'max_reserved_gpus = 0
[users.1000]
max_reserved_gpus = 3
max_reserved_unused = "5m"
'
echo @@others; as 1001 reserve --simulate 4 --for 1h; echo @@
echo @@own; as 1000 reserve --simulate 4 --gpus 3 --from 1h --for 1h; echo @@
echo @@short; kept; echo @@
policy 'max_reserved_unused = "unlimited"
'
echo @@long; kept; echo @@
policy 'max_reserved_unused = "8d"
'
echo @@wrong; as 1000 reserve --simulate 4 --from 3h --for 1h; echo @@
"""
    )
    found = told(said)
    assert "to reserve 0 GPUs of 4 at a time; 1 GPU requested" in found["others"], said
    assert "reserved r1: GPU 0" in found["own"], said
    [short], [long] = (found[name]["reservations"] for name in ("short", "long"))
    assert abs(short["lapses"] - short["begins"] - 300) < 0.001
    assert long["lapses"] is None
    assert 'policy.toml:1: max_reserved_unused: from 1m to 7d, or "unlimited"' in found["wrong"]


def test_python_reserves_as_the_command_does(typed: Typed) -> None:
    script = """
import andon
mine = andon.reserve(2, start="2h", seconds="1h", name="paper", simulated=True)
print(mine.id, mine.indices, [one.name for one in andon.reservations()])
mine.change(seconds="3h")
print(mine.reservation.ends - mine.reservation.begins)
mine.cancel()
print(andon.reservations())
weekly = andon.reserve(1, start="2h", seconds="1h", weekly=3, simulated=True)
print(weekly.id, [one.id for one in weekly.later])
for one in (weekly, *weekly.later):
    one.cancel()
for wrong in (dict(start="2h"), dict(start="yesterday", seconds=60), dict(until="nonsense")):
    try:
        andon.reserve(1, simulated=True, **wrong)
    except andon.errors.AndonError as error:
        print(error.reason)
"""
    done = typed(script, module="-c")
    lines = done.stdout.splitlines()
    assert lines[:4] == ["r1 [0, 1] ['paper']", "10800.0", "[]", "r1 ['r2', 'r3']"], done.stderr
    assert "needs one of seconds and until" in lines[4]
    assert "is in the past" in lines[5]
    assert "is not a time" in lines[6]


def test_its_owner_gets_it_although_others_wait_for_it(typed: Typed) -> None:
    typed("run", *SIM, "--", "true")  # the book is root's
    assert typed("reserve", *SIM, "-d", "2", "--for", "2h", uid=OTHER).returncode == 0
    with typed("run", *SIM, "-d", "2", "--timeout", "60", "--", "true", begun=True) as waiting:
        ends = time.monotonic() + 30
        while "waiting" not in typed("jobs", "--all").stdout and "root" not in (
            seen := typed("leases").stdout
        ):
            assert time.monotonic() < ends, seen
            time.sleep(0.2)
        own = typed("run", *SIM, "-d", "2", "--no-wait", "--", "true", uid=OTHER)
        waiting.terminate()
    assert own.returncode == 0, own.stderr


def test_all_named_devices_until_a_time_after_the_start(typed: Typed) -> None:
    made = typed("reserve", *SIM, "-d", "1,3", "--from", "Sat 18:00", "--until", "20:00")
    assert made.returncode == 0, made.stderr
    (one,) = json.loads(typed("reservations", "--json").stdout)["reservations"]
    assert [device["index"] for device in one["devices"]] == [1, 3]
    assert one["ends"] - one["begins"] == 2 * 3600.0
    again = typed("reserve", *SIM, "-d", "0", "--from", "Sat 18:00", "--for", "2h", uid=OTHER)
    assert again.returncode == 0, again.stderr
    more = typed("reserve", *SIM, "--gpus", "2", "--from", "Sat 19:00", "--for", "1h", uid=OTHER)
    assert more.returncode == 6, "one is left"
    moved = typed("reserve", "change", "r2", "--until", "2h")
    assert moved.returncode == 2
    assert "ends after it begins" in moved.stderr
