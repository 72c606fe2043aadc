"""`andon doctor` beside a hostile neighbour, in a mount and network namespace of its own."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, need
from tests.integration.conftest import andon
from tests.integration.serving import serving

NOBODY = 65534

PLAY = """
import os, subprocess, sys
def as_nobody(code):
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    return [*words, sys.executable, "-I", "-c", code]
def make_book(path):
    os.mkdir(path, 0o755)
    for part, mode in (("leases", 0o1777), ("tickets", 0o1777), ("cordons", 0o755)):
        os.mkdir(f"{path}/{part}"); os.chmod(f"{path}/{part}", mode)
def nobody(code):
    subprocess.run(as_nobody(code), check=True)
os.chmod("/tmp", 0o1777)
{scene}
done = subprocess.run([sys.executable, "-m", "andon.cli", "doctor", "--json", "--simulate", "1"])
sys.exit(done.returncode)
"""


def doctor(scene: str) -> dict[str, list[dict[str, Any]]]:
    """What it finds, by id, after a scene was played on empty /run and /tmp and a network alone."""
    need("unshare", "mount", "setpriv")
    if os.geteuid() != 0:
        pytest.skip("this needs root, to be two users")
    if Path("/tmp") in (*REPOSITORY.parents, *Path(sys.prefix).parents):
        pytest.skip("this repository lies in /tmp, which the test covers")
    script = "mount -t tmpfs none /run && mount -t tmpfs none /tmp && exec $@"
    command = ["unshare", "-m", "-n", "sh", "-c", script, "sh", sys.executable, "-"]
    play = PLAY.replace("{scene}", textwrap.dedent(scene))
    env = {**os.environ, "XDG_STATE_HOME": "/run/state", "PYTHONPATH": str(REPOSITORY / "src")}
    del env["ANDON_PORT"]  # on a network of its own, where the usual port is free
    done = subprocess.run(command, input=play, capture_output=True, text=True, timeout=120, env=env)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout, done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        found.setdefault(finding["id"], []).append(finding)
    return found


def test_a_book_of_nobodys_without_root_s_is_told_with_what_he_may_do() -> None:
    found = doctor(
        """
        nobody("import os; os.mkdir('/tmp/andon'); os.mkdir('/tmp/andon/leases');"
               "os.chmod('/tmp/andon/leases', 0o1777)")
        """
    )
    (foreign,) = found["book_foreign"]
    assert foreign["grade"] == "warning"
    assert "can cordon devices, reorder the queue" in foreign["message"]
    assert foreign["evidence"]["uid"] == NOBODY
    assert foreign["fix"] == "sudo andon setup"


def test_beside_root_s_book_it_decides_nothing_and_odd_files_are_counted() -> None:
    found = doctor(
        """
        make_book("/run/andon")
        nobody("import os; os.mkdir('/tmp/andon', 0o700)")
        nobody("import os; os.mkfifo('/run/andon/leases/$(reboot).lease');"
               "open('/run/andon/leases/x.lease', 'w').write('{}');"
               "os.symlink('/etc/shadow', '/run/andon/tickets/l.ticket');"
               "os.close(os.open('/run/andon/tickets/closed', os.O_CREAT, 0o000))")
        for n in range(300):
            open(f"/run/andon/leases/.{n}", "w").close()
            os.chown(f"/run/andon/leases/.{n}", 65534, 65534)
        """
    )
    assert "book_foreign" not in found
    (ignored,) = found["book_ignored"]
    assert "is ignored" in ignored["message"]
    (odd,) = found["book_malformed"]
    assert odd["evidence"]["count"] == 4
    assert "reboot" not in json.dumps(found), "no name of his choice is shown or to be pasted"
    (crowded,) = found["book_crowded"]
    assert crowded["evidence"] == {"path": "/run/andon", "uid": NOBODY, "count": 304}


def test_his_state_folder_his_token_and_his_listener_are_told() -> None:
    found = doctor(
        """
        from andon.host.machine_id import node_key
        node = f"/run/state/andon/nodes/{node_key()}"
        os.makedirs(node, 0o755)
        open("/run/state/andon/token", "w").write("x" * 43)
        open(f"{node}/audit.jsonl", "w").close()
        os.chmod("/run/state/andon/token", 0o600)
        os.chmod(f"{node}/audit.jsonl", 0o644)
        for path in ("/run/state/andon", "/run/state/andon/token"):
            os.chown(path, 65534, 65534)
        code = ("import os, socket; s = socket.socket(); s.bind(('127.0.0.1', 26366)); s.listen();"
                "os.write(1, b'.'); os.read(0, 1)")
        listening = subprocess.Popen(as_nobody(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        listening.stdout.read(1)
        """
    )
    assert found["state_exposed"][0]["grade"] == "failure"
    assert "can read and replace the token" in found["state_exposed"][0]["message"]
    assert found["token_exposed"][0]["grade"] == "failure"
    exposed = {f["evidence"]["mode"]: f["fix"] for f in found["records_exposed"]}
    assert exposed.keys() == {"0755", "0644"}, "this machine's folder, and the audit log in it"
    assert exposed["0755"].startswith("chmod 700 ")
    (stranger,) = found["port_foreign"]
    assert stranger["evidence"] == {"address": "127.0.0.1", "port": 26366, "uid": NOBODY}


def test_an_empty_machine_is_fine() -> None:
    found = doctor("")
    security = [f for listed in found.values() for f in listed if f["area"] == "security"]
    assert security
    assert {f["grade"] for f in security} <= {"ok", "warning"}
    assert {f["id"] for f in security if f["grade"] == "warning"} <= {"links_unprotected"}


# Beside a server of one's own.


def of_servers(state: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    findings = andon("doctor", "--json", "--simulate", "1").json()["findings"]
    return {f["id"]: f for f in findings if f["id"].startswith("server")}


def test_a_server_on_loopback_is_fine_and_a_killed_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "--no-history") as served:
        found = of_servers(tmp_path, monkeypatch)
        assert found["server"]["evidence"]["port"] == served.port
        assert ", on loopback only" in found["server"]["message"]
        served.process.kill()
        served.process.wait()
        assert set(of_servers(tmp_path, monkeypatch)) == {"server_gone"}


def test_a_server_beyond_loopback_without_tls_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "--no-history", "--host", "0.0.0.0") as served:
        found = of_servers(tmp_path, monkeypatch)
    assert found["server_without_tls"]["evidence"]["port"] == served.port
    assert "--tls-cert" in found["server_without_tls"]["fix"]
