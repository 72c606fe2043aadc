"""The unit of an agent in a systemd of its own; its hub knows no token until a file says so."""

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
