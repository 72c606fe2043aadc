"""`systemctl reload` of an agent and of a hub in a real systemd: all that changes, or nothing."""

from pathlib import Path

import pytest

from tests.integration.agent_unit import HUB
from tests.integration.own_systemd import in_a_systemd
from tests.support.postgres import binary

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
CHANGED = r"""
mkdir -p /etc/andon && mount -t tmpfs tmpfs /etc/andon  # not that of this machine
cat > /tmp/right <<X
[alerts]
thermal_celsius = 20
[[alerts.notifier]]
name = "file"
kind = "command"
command = "/bin/true"
[share]
labels = ["quiet:0"]
[history]
raw_days = 0.5
X
sed 's/thermal_celsius = 20/thermal_celsius = "hot"/' /tmp/right > /tmp/wrong
chmod 644 /tmp/right /tmp/wrong
settings() { install -m 644 /tmp/$1 /etc/andon/andon.toml; }
"""
AGENT = r"""
set +e
touch /tmp/known
systemctl daemon-reload
systemctl start andon-agent
soon grep -q "Heartbeat sent" /srv/agent || echo no heartbeat
settings wrong
systemctl reload andon-agent 2> /dev/null || echo refused
systemctl kill -s HUP --kill-who=main andon-agent
soon grep -q "the settings stay as they are" /srv/agent && echo nothing changed
settings right
systemctl reload andon-agent && echo reloaded
soon grep -q 'read again' /srv/agent; grep 'read again' /srv/agent
systemctl show --property=ActiveState --property=NRestarts andon-agent
systemctl stop andon-agent
"""
READ = (
    "read again: share.labels, alerts.thermal_celsius = 20, alerts.notifier file"
    "; on restart: history.raw_days"
)


def test_an_agent_takes_all_of_a_file_that_is_right_and_nothing_of_one_that_is_wrong(
    tmp_path: Path,
) -> None:
    said = in_a_systemd(HUB + CHANGED + AGENT, tmp_path)
    lines = said.splitlines()
    for line in ("refused", "nothing changed", "reloaded", "NRestarts=0"):
        assert line in lines, said
    assert READ in said
    assert "no heartbeat" not in said


STORE = r"""
set +e
unset PYTHONPATH
$PYTHON -c 'import fcntl, socket, struct
with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))'
mkdir /run/store && chown postgres /run/store
su postgres -c "%(bin)s/initdb -D /run/store/data -A trust -N" > /srv/store
su postgres -c "%(bin)s/pg_ctl -D /run/store/data -o '-k /run/store -h \"\"' -w start" >> /srv/store
$PYTHON -P -m andon.cli setup --system --yes -q > /dev/null
CONF=/etc/systemd/system/andon-hub.service.d
mkdir -p /etc/default $CONF
echo 'ANDON_HISTORY=postgresql:///postgres?host=/run/store&user=postgres' > /etc/default/andon-hub
printf '[Service]\nStandardError=append:/srv/hub\nProtectHome=no\n' > $CONF/x.conf
URL=http://127.0.0.1:26366
TOKEN=/var/lib/andon-hub/andon/token
said() { curl -s -H "Authorization: Bearer $(cat $1)" $URL/api/session; }
role() { said $1 | grep -o '"role":"[a-z]*"'; }
"""
TOKENS = r"""
systemctl daemon-reload
systemctl start andon-hub && echo started
soon curl -sf $URL/api/health > /dev/null
cp $TOKEN /tmp/old
echo before $(role /tmp/old)
echo 'new0123456789012345678901234567890123456789' > /tmp/new
settings wrong
cp /tmp/new $TOKEN
systemctl reload andon-hub 2> /dev/null || echo refused
systemctl kill -s HUP --kill-who=main andon-hub
soon grep -q "the settings stay as they are" /srv/hub && echo nothing $(role /tmp/old)
settings right
systemctl reload andon-hub && echo reloaded
soon grep -q 'read again' /srv/hub
echo after $(role /tmp/new), of the old $(role /tmp/old)
systemctl show --property=ActiveState --property=NRestarts andon-hub
systemctl show --property=StatusText andon-hub
systemctl stop andon-hub
"""


def test_a_hub_takes_a_new_token_with_the_settings_beside_it_or_neither(tmp_path: Path) -> None:
    store = STORE % {"bin": Path(binary("initdb")).parent}
    said = in_a_systemd(store + CHANGED + TOKENS, tmp_path)
    lines = said.splitlines()
    for line in (
        "started", 'before "role":"owner"', "refused", 'nothing "role":"owner"', "reloaded",
        "NRestarts=0", f"StatusText={READ}; the token: all sessions have ended",
    ):  # fmt: skip
        assert line in lines, said
    (after,) = (line for line in lines if line.startswith("after "))
    assert after.startswith('after "role":"owner"'), said
    assert after.count("owner") == 1, said
