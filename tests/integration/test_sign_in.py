"""Users of one machine sign in as themselves with a server that root runs, by real uids."""

import json
import re
from typing import Any

from tests.integration.machine import on_a_machine

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
    SERVER=$!
    for i in $(seq 600); do grep -q http:// /tmp/served$uid && return; sleep 0.05; done
    cat /tmp/served$uid; false
}
keep() {  # a lease of a user's, until the script ends
    user $1 "$PYTHON" -P -m andon.cli run --simulate 4 -- sleep 600 > /dev/null 2>&1 &
    for i in $(seq 400); do
        ls /run/andon/leases 2>/dev/null | grep -q lease && return
        sleep 0.05
    done
    false
}
ended() { kill $1; wait $1 || true; }
"""
ASKING = """
import json, sys, urllib.error, urllib.request
URL = "http://127.0.0.1:26366"
def ask(method, path, key=None, body=None, url=URL, **headers):
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **headers}
    if key: sent["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url + path, data, sent, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
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
        stat -c '%U %a' /run/andon/leases/*.lease | sort | said files
        ended $SERVER; serving 0
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
