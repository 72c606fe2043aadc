"""`andon mcp --allow act` at the server of an ordinary user: what an assistant does there."""

import json

import pytest

from tests.integration.machine import on_a_machine

pytestmark = pytest.mark.timeout(240)
UID = 30001
ASKS = """
import json, os, sys
import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
url, state = sys.argv[1], os.environ["XDG_STATE_HOME"]
words = ["-P", "-m", "andon.cli", "mcp", "--allow", "act", "--url", url,
         "--token-file", state + "/andon/token"]

async def talk():
    started = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with Client(stdio_client(started)) as client:
        async def ask(tool, **said):
            found = await client.call_tool(tool, said)
            return [found.is_error, found.content[0].text, found.structured_content]

        found = {}
        job = ["sh", "-c", "sleep 300"]
        found["submit"] = await ask("submit", command=job, name="long", at_most="2h", begin="2h")
        found["wrong"] = await ask("submit", command=job, gpus="many")
        found["reserve"] = await ask("reserve", begin="2h", length="1h", name="camera")
        found["when"] = await ask("reserve", begin="nonsense", length="1h")
        leases = (await ask("leases"))[2]["answer"]["leases"]
        for one in leases:
            found[f"release {one['user']}"] = await ask("release", lease=one["id"])
        found["nobody"] = await ask("release", lease="zzzzz")
        found["cancel"] = await ask("cancel", job="long")
        found["cluster"] = await ask("cancel", job="lab:3")
        found["checks"], found["doctor"] = await ask("checks"), await ask("doctor")
        return found

print("found", json.dumps(anyio.run(talk)))
"""


def test_an_assistant_acts_at_a_server_with_its_token_and_the_server_writes_it_down() -> None:
    said = on_a_machine(
        f"""
        export HOME=/tmp/state30001 ANDON_LEASE_DIR=/tmp/book
        export ANDON_JOBS_SUBMIT_OVER_HTTP=yes ANDON_JOBS_IDLE=1s
        book /tmp/book; mkdir -m 1777 /tmp/book/reservations
        for who in {UID} 30002; do mkdir /tmp/state$who; chown $who /tmp/state$who; done
        user {UID} "$PYTHON" -P -m andon.cli serve --simulate 2 --no-history > /tmp/served 2>&1 &
        for i in $(seq 1600); do grep -q http:// /tmp/served && break; sleep 0.05; done
        url=$(grep -o 'http://[0-9.:]*' /tmp/served | head -1)
        for who in {UID} 30002; do
            user $who "$PYTHON" -P -m andon.cli run --simulate 2 -d $((who - {UID})) -- sleep 300 &
        done
        held() {{ test $(ls /tmp/book/leases | grep -c lease$) = 2; }}
        for i in $(seq 1600); do held && break; sleep 0.05; done
        user {UID} "$PYTHON" -P -c "$ASKS" $url || cat /tmp/served
        echo "audit $(user {UID} "$PYTHON" -P -m andon.cli audit --json | tr -d '\\n')"
        """,
        network=True,
        ASKS=ASKS,
    )
    lines = {line.partition(" ")[0]: line.partition(" ")[2] for line in said.splitlines()}
    assert "found" in lines, said
    found = json.loads(lines["found"])
    refused = {name for name, one in found.items() if one[0]}
    assert refused == {"wrong", "when", "release 30002", "nobody", "cluster"}, found
    assert found["submit"][2]["answer"] == {"jobs": [1]}
    assert "'many' is not a number of GPUs" in found["wrong"][1]
    assert found["reserve"][2]["answer"]["name"] == "camera"
    assert "is not a time" in found["when"][1]
    assert "you hold no lease" in found["release 30002"][1]
    assert "released lease" in found["release 30001"][1]
    assert "job 1 cancelled" in found["cancel"][1]
    assert found["checks"][2]["answer"]["schema"] == "andon.checks/1"
    assert found["doctor"][2]["command"] == "andon doctor", "it is about this machine"
    rows = [(one["action"], one["result"]) for one in json.loads(lines["audit"])["items"]]
    acts = ("submit", "reserve", "release", "cancel")
    assert [one for one in rows if one[0] in acts] == [
        ("submit", "done"), ("submit", "failed"), ("reserve", "done"), ("release", "done"),
        ("cancel", "done"),
    ]  # fmt: skip
