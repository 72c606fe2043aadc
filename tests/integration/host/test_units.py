"""The units of `andon setup --system` in a real systemd: from their start to their removal."""

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.integration.own_systemd import in_a_systemd
from tests.standin import StandIn, build, hung

pytestmark = pytest.mark.timeout(300)  # a systemd starts and ends, on a machine that may be busy
BEGIN = r"""
set +e
unset PYTHONPATH
PATH=$PATH:/sbin:/usr/sbin
$PYTHON -c 'import fcntl, socket, struct
with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))'
ANDON="$PYTHON -P -m andon.cli"
URL=http://127.0.0.1:26366
now() { systemctl show --property=$1 --value andon; }
healthy() { curl -sf $URL/api/health; }
mkdir -p /etc/default /etc/andon /etc/systemd/system/andon.service.d
echo "OPTIONS=--simulate 2" > /etc/default/andon
printf '[Service]\nStandardError=file:/srv/server\n' > /etc/systemd/system/andon.service.d/test.conf
"""
SMOKE = r"""
$ANDON setup --system --yes > /srv/first || echo setup failed
$ANDON setup --system --yes -q > /srv/second
sed -i s/LimitNOFILE=4096/LimitNOFILE=5000/ /etc/systemd/system/andon.service
$ANDON setup --system --yes -q > /srv/third
systemctl daemon-reload
systemctl start andon.socket && soon healthy > /dev/null && echo started by $(now TriggeredBy)
printf '[alerts]\nthermal_celsius = 71\n' > /etc/andon/andon.toml
systemctl reload andon && echo reloaded
soon grep -q "alerts.thermal_celsius = 71" /srv/server
printf '[alerts]\nthermal_celsius = "hot"\n' > /etc/andon/andon.toml
systemctl reload andon 2> /dev/null || echo refused
healthy > /dev/null && echo restarts $(now NRestarts) status $(now StatusText)
for unit in andon andon-agent andon-hub; do
    systemd-analyze security $unit.service | grep -o 'level for .*: [0-9.]*'
done
systemctl stop andon.socket andon; echo $(now ActiveState) $(now Result)
rm /etc/andon/andon.toml
$ANDON setup --system --remove --yes -q > /dev/null
find /etc/systemd /etc/tmpfiles.d /etc/sysusers.d -name 'andon*' -type f
"""


def test_a_server_is_set_up_started_by_its_socket_reloaded_and_removed(tmp_path: Path) -> None:
    said = in_a_systemd(BEGIN + SMOKE, tmp_path)
    first, second, third = ((tmp_path / n).read_text() for n in ("first", "second", "third"))
    assert (first.count(" new\n"), second.count("up to date")) == (7, 7), said
    assert "+LimitNOFILE=5000" in third
    lines = said.splitlines()
    assert "started by andon.socket" in lines, said
    assert lines.count("reloaded") == 1, said
    assert "refused" in lines, said
    assert "restarts 0 status read again: alerts.thermal_celsius = 71" in lines, said
    assert "inactive success" in lines, said
    page = (REPOSITORY / "docs/admin.md").read_text()
    shown = re.findall(r"^\| `(andon[\w-]*\.service)` \|.*\| ([\d.]+) \|$", page, re.MULTILINE)
    assert shown == re.findall(r"level for (\S+): (\S+)", said), said
    left = [line for line in lines if line.startswith("/etc/")]
    assert left == ["/etc/systemd/system/andon.service"], said  # the one that was edited


WATCHED = r"""
$ANDON setup --system --yes -q > /dev/null
cat > /etc/systemd/system/andon.service.d/watchdog.conf <<X
[Service]
WatchdogSec=4
Environment=STANDIN_FOLDER=/srv/standin LD_LIBRARY_PATH=/srv/library
X
echo OPTIONS= > /etc/default/andon
systemctl daemon-reload
systemctl start andon && echo started $(now NRestarts)
long_since() {
    healthy | $PYTHON -c 'import json, sys; sys.exit(json.load(sys.stdin)["uptime_seconds"] < 10)'
}
soon long_since && echo hung driver $(now NRestarts)
curl -s $URL/api/snapshot | grep -o '"state":"stale"' | head -1
kill -STOP $(now MainPID)
restarted() { test "$(now NRestarts)" = 1; }
soon restarted; soon healthy > /dev/null && echo hung loop $(now NRestarts)
grep -c "in select" /srv/server
systemctl stop andon
"""


@pytest.mark.long
def test_a_hung_loop_is_restarted_and_a_hung_driver_is_not(tmp_path: Path) -> None:
    node = tmp_path / "standin"
    node.mkdir()
    control = StandIn(node)
    control.write(StandIn.devices(2))
    control.set_faults(hung(device=1))
    build(tmp_path / "library")
    said = in_a_systemd(BEGIN + WATCHED, tmp_path)
    assert re.findall(r"(started|hung driver|hung loop) (\d+)", said) == [
        ("started", "0"), ("hung driver", "0"), ("hung loop", "1"),
    ], said  # fmt: skip
    assert '"state":"stale"' in said
    assert said.splitlines()[-1] != "0", "what it was doing is in the journal"


KEPT = r"""
$ANDON setup --system --yes -q > /dev/null
mkdir /etc/systemd/user/andon-dispatcher.service.d
printf '[Service]\nWatchdogSec=4\n' > /etc/systemd/user/andon-dispatcher.service.d/test.conf
systemctl start andon
TOKEN="Authorization: Bearer $(cat /var/lib/andon/token)"
curl -s -H "$TOKEN" -H 'Content-Type: application/json' -d '{"gpus": 1, "seconds": 3600}' \
    $URL/api/leases > /srv/lease
held() { curl -s -H "$TOKEN" $URL/api/leases | grep -o '"id":"[^"]*"' | sort -u; }
held > /tmp/before
systemctl restart andon; soon healthy > /dev/null; held > /tmp/after
cmp /tmp/before /tmp/after && echo leases $(wc -l < /tmp/after)
loginctl enable-linger dora
ID=$(id -u dora)
soon test -S /run/user/$ID/systemd/private
user() { su - dora -c "export XDG_RUNTIME_DIR=/run/user/$ID; $*"; }
user systemctl --user enable --now andon-dispatcher 2> /dev/null
pid() { user systemctl --user show --property=MainPID --value andon-dispatcher; }
dispatches() { cat /home/dora/.local/state/andon/nodes/*/jobs/* 2> /dev/null | grep -q "$(pid)"; }
soon dispatches && echo the unit dispatches
user ANDON_SIMULATE_SCENARIO=idle $ANDON submit --simulate 1 -- sleep 4242
status() { user systemctl --user show --property=$1 --value andon-dispatcher; }
alive() { pgrep -u dora -f '^[^ ]*sleep 4242$'; }
soon alive > /dev/null; alive > /tmp/before
user systemctl --user restart andon-dispatcher; soon dispatches; alive > /tmp/after
cmp /tmp/before /tmp/after && echo jobs $(wc -l < /tmp/after)
soon test "$(status StatusText)" = dispatching && echo says what it does
kill -STOP $(pid)
restarted() { test "$(status NRestarts)" = 1; }
soon restarted; soon dispatches; alive > /tmp/after
cmp /tmp/before /tmp/after && echo hung loop $(status NRestarts), jobs $(wc -l < /tmp/after)
user $ANDON cancel 1
gone() { ! alive; }
soon gone && echo cancelled by the new one
"""


@pytest.mark.long
def test_leases_and_jobs_outlive_a_restart(tmp_path: Path) -> None:
    said = in_a_systemd(BEGIN + KEPT, tmp_path).splitlines()
    for line in ("leases 1", "the unit dispatches", "jobs 1", "says what it does",
                 "hung loop 1, jobs 1", "cancelled by the new one"):  # fmt: skip
        assert line in said, "\n".join(said)
