"""A machine of its own for a test with several users: `on_a_machine` runs a script as its root.

Everything runs in mount and pid namespaces over a copy of the file system that is thrown away:
nothing of this machine is written to, and nothing runs on when a script ends.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, need

NO_OVERLAY = 77
MACHINE = rf"""
set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
options=lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work
mount -t overlay -o $options overlay /mnt/root || exit {NO_OVERLAY}
mount -t proc proc /mnt/root/proc
mount --rbind /dev /mnt/root/dev
mount -t tmpfs -o mode=755 tmpfs /mnt/root/run
mount -t tmpfs -o mode=1777 tmpfs /mnt/root/tmp
for folder in $HIDDEN; do
    mkdir -p /mnt/root$folder
    mount --bind $folder /mnt/root$folder
    mount -o remount,bind,ro /mnt/root$folder
done
cd /mnt/root
pivot_root . mnt
umount --lazy /mnt
exec bash -c "$SCRIPT"
"""
PREPARE = r"""
set -e
for folder in $CLOSED; do chmod o+x $folder; done
mkdir -p /etc/tmpfiles.d
export HOME=/tmp/nowhere XDG_CONFIG_HOME=/tmp/nowhere XDG_STATE_HOME=/tmp/state TMPDIR=/tmp
export ANDON_SIMULATE_SCENARIO=idle
andon() { "$PYTHON" -P -m andon.cli "$@"; }
user() {
    uid=$1; shift
    setpriv --reuid $uid --regid $uid --clear-groups env XDG_STATE_HOME=/tmp/state$uid "$@"
}
forked() { PYTHONPATH=$PYTHONPATH:$TESTS "$PYTHON" -P -c "$FORKED" 2>&1; }
take() { user $1 "$PYTHON" -P -m andon.cli run -q --simulate 8 --no-wait -- true; }
hold() {  # a lease of another user's that is held until the script ends
    user $1 "$PYTHON" -P -m andon.cli run --simulate 2 -- sleep 600 &
    for i in $(seq 1600); do ls $2/leases 2>/dev/null | grep -q lease && return; sleep 0.05; done
    false
}
book() {
    mkdir -p $1/leases $1/tickets $1/cordons
    chmod 755 $1 $1/cordons; chmod 1777 $1/leases $1/tickets
}
"""
# Lines of a user's number and a command of andon; each is forked from one interpreter.
FORKED = """
import os, shlex, subprocess, sys
from tests.support.warm import keeper
keeper.preload_all(keeper.PRELOADED)
subprocess.Popen = keeper.Popen
for line in sys.stdin:
    uid, *words = shlex.split(line)
    sys.stdout.flush()
    if not (pid := os.fork()):
        os.setgroups([])
        os.setgid(int(uid))
        os.setuid(int(uid))
        command = [sys.executable, "-P", "-m", "andon.cli", *words]
        env = {**os.environ, "XDG_STATE_HOME": f"/tmp/state{uid}"}
        keeper.run(
            dict(args=command, env=env, cwd="/", umask=0o022, session=False, group=-1, parent=0,
                 passed=[], most_files=None), [0, 1, 2]
        )
    print("exited", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
LOOPBACK = r"""
"$PYTHON" -c 'import fcntl, socket, struct
with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))'
"""

ASKING = """
import json, sys, time, urllib.error, urllib.request
URL = "http://127.0.0.1:26366"
def ask(method, path, key=None, body=None, url=URL, **headers):
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **headers}
    if key: sent["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url + path, data, sent, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
def enter(link):
    return ask("POST", "/api/session", body={"code": link.strip().rpartition("code=")[2]})
"""


def told(said: str) -> dict[str, Any]:
    """What a script said under each name, as JSON where it is."""
    found = {}
    for name, text in re.findall(r"^@@(\S+)\n(.*?)\n@@$", said, re.DOTALL | re.MULTILINE):
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text.strip()
    return found


def closed_folders() -> str:
    """The folders on the way to this interpreter and to andon that other users may not pass."""
    above = {*Path(sys.base_prefix).parents, *Path(sys.prefix).parents, *REPOSITORY.parents}
    return " ".join(str(path) for path in above if not path.stat().st_mode & 0o001)


def hidden_folders() -> str:
    """What of andon and its interpreter lies where that machine has folders of its own."""
    needed = (Path(sys.base_prefix), Path(sys.prefix), REPOSITORY)
    return " ".join(str(path) for path in needed if path.parts[1] in ("tmp", "run"))


def on_a_machine(script: str, network: bool = False, **programs: str) -> str:
    """Run a shell script as root of such a machine; what it printed. Programs are Python, started
    by `user UID "$PYTHON" -P -c "$NAME"`; `forked` runs a list of commands in a cheap way. With a
    network of its own every port is free."""
    if os.geteuid() != 0:
        pytest.skip("other users and mounts need root")
    need("unshare", "setpriv", "mount", "pivot_root")
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *(["--net"] * network)]
    variables = {name: text for name, text in os.environ.items() if not name.startswith("ANDON_")}
    done = subprocess.run(
        [*apart, "bash", "-c", MACHINE],
        capture_output=True,
        text=True,
        timeout=170.0,
        cwd="/",
        env={
            **variables,
            **programs,
            "CLOSED": closed_folders(),
            "HIDDEN": hidden_folders(),
            "SCRIPT": PREPARE + (LOOPBACK if network else "") + script,
            "FORKED": FORKED,
            "PYTHON": sys.executable,
            "TESTS": str(REPOSITORY),
            "PYTHONPATH": str(REPOSITORY / "src"),
        },
    )
    if done.returncode == NO_OVERLAY:
        pytest.skip("there is no overlay file system")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Traceback" not in said, said
    return said
