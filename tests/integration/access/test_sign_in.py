"""Users of one machine sign in as themselves with a server that root runs, by real uids."""

from typing import Any

from tests.integration.machine import ASKING, on_a_machine, told

ACCOUNTS = r"""
printf 'dora:x:1234:1234::/tmp:/bin/sh\nerik:x:1235:1235::/tmp:/bin/sh\n' >> /etc/passwd
printf 'mallory:x:1666:1666::/tmp:/bin/sh\n' >> /etc/passwd
andon setup >/dev/null
export ANDON_SIMULATE_FAULTS=lost:3
said() { echo "@@$1"; cat; echo; echo "@@"; }
of() { uid=$1; shift; user $uid "$PYTHON" -P -m andon.cli "$@" 2>&1; }
serving() {  # as a user, with options
    uid=$1; shift
    user $uid "$PYTHON" -P -m andon.cli serve --simulate 4 "$@" > /tmp/served$uid 2>&1 &
    for i in $(seq 1600); do grep -q http:// /tmp/served$uid && return; sleep 0.05; done
    cat /tmp/served$uid; false
}
keep() {  # a lease of a user's, until the script ends
    user $1 "$PYTHON" -P -m andon.cli run --simulate 4 -- sleep 600 > /dev/null 2>&1 &
    for i in $(seq 1600); do
        ls /run/andon/leases 2>/dev/null | grep -q lease && return
        sleep 0.05
    done
    false
}
ended() {  # the server of a user
    read pid < $(echo /tmp/state$1/andon/nodes/*/server.lock) || true
    kill $pid
    for i in $(seq 1600); do [ -e /proc/$pid ] || break; sleep 0.05; done
    rm /tmp/served$1
}
"""


def machine(script: str, **programs: str) -> dict[str, Any]:
    programs = {name: ASKING + text for name, text in programs.items()}
    return told(on_a_machine(ACCOUNTS + script, network=True, **programs))


WHO = """
status, made = enter(sys.argv[1])
key = made.get("secret")
out = {"entered": status, "me": ask("GET", "/api/session", key)[1]}
out["again"] = enter(sys.argv[1])
alert = ask("GET", "/api/alerts", key)[1]["alerts"][0]
at = "/api/alerts/" + alert["id"].replace("#", "%23").replace("@", "%40") + "/acknowledge"
out["ack"] = ask("POST", at, key, {"by": "root", "note": "mine"})[1]["acknowledged"]
out["silence"] = ask("POST", "/api/silences", key, {"seconds": 60, "rule": "fan", "by": "x"})
out["silence all"] = ask("POST", "/api/silences", key, {"seconds": 60})[0]
out["cordon"] = ask("PUT", "/api/devices/0/cordon", key, {"reason": "x"})
out["test"] = ask("POST", "/api/alerts/test", key, {})[0]
out["link"] = ask("POST", "/api/links", key, {})[0]
out["taken"] = ask("POST", "/api/leases", key, {"gpus": 1, "seconds": 600})
out["pushed"] = ask("POST", "/api/leases", key, {"gpus": 1, "seconds": 600, "priority": 5})[0]
out["leases"] = ask("GET", "/api/leases", key)[1]["leases"]
others = [one for one in out["leases"] if one["user"] == "erik"]
out["of erik"] = [ask("DELETE", "/api/leases/" + one["id"], key) for one in others]
mine = out["taken"][1]
out["extended"] = ask("POST", f"/api/leases/{mine['id']}/renew", key,
                      {"seconds": 900, "fence": mine["fence"]})[0]
out["key"] = key
print(json.dumps(out))
"""
AFTER = """
key, lease = sys.argv[1], json.loads(sys.argv[2])
out = {"me": ask("GET", "/api/session", key)[1]}
out["released"] = ask("DELETE", f"/api/leases/{lease['id']}?fence={lease['fence']}", key)
out["left"] = [one["user"] for one in ask("GET", "/api/leases", key)[1]["leases"]]
print(json.dumps(out))
"""


def test_a_user_is_signed_in_as_herself_and_does_what_is_hers() -> None:
    found = machine(
        r"""
        serving 0
        keep 1235
        of 1234 open --print | said open
        link=$(of 1234 open --print | grep http)
        user 1234 "$PYTHON" -P -c "$WHO" "$link" > /tmp/who
        said who < /tmp/who
        key=$("$PYTHON" -c 'import json; print(json.load(open("/tmp/who"))["key"])')
        lease=$("$PYTHON" -c 'import json
print(json.dumps(json.load(open("/tmp/who"))["taken"][1]))')
        of 1234 leases --mine | said mine
        of 1234 history host --json | said history
        stat -c '%U %a' /run/andon/leases/*.lease | sort | said files
        ended 0; serving 0
        user 1234 "$PYTHON" -P -c "$AFTER" "$key" "$lease" | said after
        of 1234 open --revoke | said revoked
        user 1234 "$PYTHON" -P -c "$AFTER" "$key" "$lease" 2>/dev/null | said refused
        of 0 audit --json | said audit
        of 0 audit | said trail
        of 1234 audit | said hers || true
        """,
        WHO=WHO,
        AFTER=AFTER,
    )
    assert "signed in as dora with the server of root" in found["open"]
    assert found["history"]["schema"] == "andon.history/1", "the server's: she has none of her own"
    who = found["who"]
    assert who["entered"] == 200
    assert {name: who["me"][name] for name in ("role", "user", "uid", "by_token", "reads")} == {
        "role": "user", "user": "dora", "uid": 1234, "by_token": False, "reads": True,
    }  # fmt: skip
    assert who["again"][0] == 401  # a link is used once
    assert (who["ack"]["by"], who["ack"]["note"]) == ("dora", "mine")
    assert (who["silence"][0], who["silence"][1]["by"]) == (200, "dora")
    assert who["silence all"] == who["test"] == who["link"] == who["pushed"] == 403
    assert who["cordon"] == [
        403,
        {
            "error": {
                "kind": "denied",
                "reason": "dora may not cordon here",
                "hint": "only root and the user who runs this server may",
            }
        },
    ]
    assert (who["taken"][0], who["taken"][1]["user"]) == (201, "dora")
    shown = {one["user"]: one for one in who["leases"]}
    assert shown["dora"]["releasable"]
    assert (shown["erik"]["releasable"], shown["erik"]["command"]) == (False, None)
    [[status, refused]] = who["of erik"]
    assert (status, refused["error"]["hint"]) == (403, "ask erik, or root")
    assert who["extended"] == 200
    assert who["taken"][1]["id"] in found["mine"]
    assert found["files"].split("\n") == ["dora 644", "erik 644"]
    after = found["after"]  # the session survived the restart
    assert (after["me"]["user"], after["released"][0], after["left"]) == ("dora", 200, ["erik"])
    assert found["revoked"] == "andon: 1 session ended"
    assert found["refused"] == ""
    rows = found["audit"]["items"]
    done = [(row["user"], row["action"], row["result"]) for row in rows]
    assert ("dora", "take", "done") in done
    assert ("dora", "acknowledge", "done") in done
    assert ("dora", "cordon", "refused") in done
    assert ("dora", "release", "done") in done
    assert "dora" in found["trail"]
    assert "root" in found["hers"]


LIAR = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Liar(BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.command, self.path, dict(self.headers), file=sys.stderr, flush=True)
        body = json.dumps({"sign_in": sys.argv[2], "user": "root"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_DELETE = do_GET
    def log_message(self, *_): ...
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Liar).serve_forever()
"""
RELAY = """
import contextlib, socket, threading
def pipe(a, b):
    with contextlib.suppress(OSError):  # either side may be closed already
        while part := a.recv(65536): b.sendall(part)
        b.shutdown(socket.SHUT_WR)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
    while True:
        near, _ = listening.accept()
        far = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
        for pair in ((near, far), (far, near)):
            threading.Thread(target=pipe, args=pair, daemon=True).start()
"""
SQUATTER = """
import socket, time
name = ask("GET", "/api/session")[1]["sign_in"]
port, kept = 26366, []
for number in range(200):
    one = socket.socket(socket.AF_UNIX)
    one.bind(f"\\0andon-sign-in/{port}/{number:032x}")
    one.listen(1)
    kept.append(one)
waiting = []
for _ in range(1000):
    one = socket.socket(socket.AF_UNIX)
    one.setblocking(False)
    try:
        one.connect("\\0" + name)
    except OSError:
        time.sleep(0.001)
    waiting.append(one)
print("squatting", flush=True)
time.sleep(600)
"""
SESSION = """
print(ask("GET", "/api/session")[1]["sign_in"])
"""


def test_nobody_comes_between_a_user_and_the_server() -> None:
    found = machine(
        r"""
        serving 0
        name=$("$PYTHON" -P -c "$SESSION")
        user 1666 "$PYTHON" -P -c "$LIAR" 31000 "$name" 2> /tmp/heard &
        "$PYTHON" -P -c "$RELAY" 31001 26366 &
        user 1666 "$PYTHON" -P -c "$LIAR" 31002 "andon-sign-in/31002/$(printf %032d 0)" &
        up() { "$PYTHON" -c "import socket, sys
socket.create_connection(('127.0.0.1', $1)).close()" 2>/dev/null; }
        for port in 31000 31001 31002; do
            for i in $(seq 1600); do up $port && break; sleep 0.05; done
        done
        (of 1234 open --print --url http://127.0.0.1:31000 || echo rc $?) | said liar
        grep -c code /tmp/heard | said heard || true
        (of 1234 open --print --url http://127.0.0.1:31001 || echo rc $?) | said relay
        (of 1234 open --print --url http://127.0.0.1:31002 || echo rc $?) | said nothing
        (of 1234 open --print --url http://127.0.0.1:31003 || echo rc $?) | said silent
        user 1666 "$PYTHON" -P -c "$SQUATTER" > /tmp/squat &
        for i in $(seq 1600); do grep -q squatting /tmp/squat && break; sleep 0.05; done
        (of 1234 open --print || echo rc $?) | said crowded
        (of 4321 open --print || echo rc $?) | said stranger
        ended 0
        (of 1234 open --print || echo rc $?) | said away
        user 1666 "$PYTHON" -P -c "$LIAR" 26366 "$name" &
        for i in $(seq 1600); do up 26366 && break; sleep 0.05; done
        (of 1234 open --print || echo rc $?) | said unnamed
        """,
        LIAR=LIAR,
        RELAY=RELAY,
        SQUATTER=SQUATTER,
        SESSION=SESSION,
    )
    assert "its sign-in socket belongs to another user" in found["liar"]
    assert "rc 4" in found["liar"]
    assert found["heard"] == 0
    assert "it relays requests to the server at http://127.0.0.1:26366" in found["relay"]
    assert "hint: andon open --url http://127.0.0.1:26366" in found["relay"]
    assert "rc 3" in found["nothing"]
    assert "root's: andon open --url http://127.0.0.1:26366" in found["silent"]
    assert "http://127.0.0.1:26366/#code=" in found["crowded"]
    assert "signed in as dora with the server of root" in found["crowded"]
    assert "uid 4321 has no account on this machine" in found["stranger"]
    assert "ask root, who runs this server" in found["stranger"]
    assert "no andon server is running here" in found["away"]
    assert "andon serve" in found["away"]
    assert "is run by mallory (uid 1666), and you did not name it" in found["unnamed"]
    assert "hint: if you trust it: andon open --url http://127.0.0.1:" in found["unnamed"]


def test_with_a_users_server_others_are_sent_to_the_terminal_and_root_may_do_all() -> None:
    found = machine(
        r"""
        serving 1235 --port 31020
        keep 1234
        link=$(of 1234 open --print --url http://127.0.0.1:31020 | grep http)
        user 1234 "$PYTHON" -P -c "$GUEST" "$link" | said dora
        link=$(of 0 open --print --url http://127.0.0.1:31020 | grep http)
        "$PYTHON" -P -c "$GUEST" "$link" | said root
        (of 1234 open --print || echo rc $?) | said unnamed
        """,
        GUEST="""
URL = "http://127.0.0.1:31020"
key = ask("POST", "/api/session", None, {"code": sys.argv[1].rpartition("code=")[2]}, URL)[1]
key = key["secret"]
out = {"me": ask("GET", "/api/session", key, None, URL)[1]}
for _ in range(100):  # the server reads the book about once a second
    out["leases"] = ask("GET", "/api/leases", key, None, URL)[1]["leases"]
    if out["leases"]: break
    time.sleep(0.1)
out["taken"] = ask("POST", "/api/leases", key, {"gpus": 1, "seconds": 60}, URL)
print(json.dumps(out))
""",
    )
    dora, root = found["dora"], found["root"]
    assert (dora["me"]["role"], dora["me"]["server_user"]) == ("user", "erik")
    [lease] = dora["leases"]
    assert "sleep 600" in lease["command"]
    assert not lease["releasable"]
    assert lease["not_releasable_reason"] == (
        f"erik runs this server and cannot end it: andon release {lease['id']}"
    )
    assert dora["taken"][0] == 403
    assert dora["taken"][1]["error"]["hint"] == "in a terminal: andon lease --gpus 1 --for 2h"
    assert (root["me"]["role"], root["me"]["user"]) == ("owner", "root")
    assert "erik's: andon open --url http://127.0.0.1:31020" in found["unnamed"]
