"""A reservation as two users see it: every command honours it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.parts import need_root

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

    def run(*words: str, uid: int = 0, begun: bool = False) -> Any:
        home = tmp_path / f"home-{uid}"
        home.mkdir(exist_ok=True)
        os.chown(home, uid, uid)
        drop = ("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups") * (uid != 0)
        env = {
            **os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"), "ANDON_LEASE_DIR": str(tmp_path / "book"),
            "ANDON_SIMULATE_SCENARIO": "idle", "ANDON_PORT": "28997", "COLUMNS": "120",
        }  # fmt: skip
        command = [*drop, sys.executable, "-P", "-m", "andon.cli", *words]
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


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--for", "2h", "--until", "3h"), "needs one of --for and --until"),
        ((), "needs one of --for and --until"),
        (("--from", "yesterday", "--for", "1h"), "is in the past"),
        (("--from", "5h", "--until", "4h"), "ends after it begins"),
        (("--gpus", "9", "--for", "1h"), "9 GPUs requested"),
        (("--from", "9d", "--for", "1h"), "reservations begin within 7 d"),
        (("--for", "49h",), "2 d may be reserved by one user"),
        (("--gpus", "3", "--for", "1h"), "2 devices of 4 may be reserved"),
        (("--from", "25:00", "--for", "1h"), "25:00"),
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
