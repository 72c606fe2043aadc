"""The agent as a service of a real systemd: a hub that refuses its token does not end it."""

import re
from pathlib import Path

import pytest

from tests.integration.own_systemd import in_a_systemd

pytestmark = pytest.mark.timeout(300)  # a systemd starts and ends, on a machine that may be busy
# A hub that knows no token until a file says so.
HUB = r"""
cat > /tmp/hub.py <<'X'
import http.server, os
class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        known = os.path.exists("/tmp/known")
        said = b'{"at": 0}' if known else b'{"error": {"reason": "refused", "hint": ""}}'
        self.send_response(200 if known else 401)
        self.send_header("X-Andon-Hub", "1")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
http.server.HTTPServer(("127.0.0.1", 26366), Hub).serve_forever()
X
$PYTHON -c 'import fcntl, socket, struct
with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))'
$PYTHON /tmp/hub.py > /dev/null 2>&1 &
$PYTHON -P -m andon.cli setup --system --yes > /dev/null
mkdir -p /etc/default /etc/systemd/system/andon-agent.service.d
cat > /etc/default/andon-agent <<X
OPTIONS=--hub http://127.0.0.1:26366 --simulate 1
ANDON_HUB_TOKEN=0123456789012345678901234567890123456789abc
X
cat > /etc/systemd/system/andon-agent.service.d/test.conf <<X
[Service]
StandardOutput=append:/srv/agent
StandardError=append:/srv/agent
X
"""
TRIED = r"""
systemctl daemon-reload
systemctl start andon-agent
soon grep -q refused /srv/agent
systemctl show --property=ActiveState --property=NRestarts andon-agent
touch /tmp/known
soon grep -q "Heartbeat sent" /srv/agent
systemctl show --property=ActiveState --property=NRestarts andon-agent
systemctl stop andon-agent
"""


def test_a_refused_agent_goes_on_and_reports_once_its_token_is_known(tmp_path: Path) -> None:
    said = in_a_systemd(HUB + TRIED, tmp_path)
    assert re.findall(r"NRestarts=(\d+)", said) == ["0", "0"], said
    assert re.findall(r"ActiveState=(\w+)", said) == ["active", "active"], said
