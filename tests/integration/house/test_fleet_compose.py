"""deploy/docker: both compose files are whole, and each command line of the fleet starts for real.

PostgreSQL, Prometheus and Alertmanager are Debian's. Grafana is in no registry of packages: its
files are only read, and its dashboard's queries are run by `exporter/test_exporter.py`.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from andon.settings.resolution import resolve
from tests.conftest import REPOSITORY, need
from tests.integration.parts import daemon, free_port, wait_until
from tests.integration.prometheus import Prometheus, fetch
from tests.integration.serving import make_certificate
from tests.support.postgres import url_of

yaml = pytest.importorskip("yaml")
DEPLOY = REPOSITORY / "deploy/docker"
FLEET = yaml.safe_load((DEPLOY / "fleet.yaml").read_text())["services"]
MADE = ("./fleet/tls", "./fleet/tls/cert.pem", "./fleet/prometheus.token")  # by an administrator
CLOSED = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
STOCK = {"postgres"}  # its image changes its user by itself


def mounts(service: str) -> dict[str, str]:
    """Where each file and folder of the service is in its container, by its place here."""
    pairs = [one.removesuffix(":ro").split(":") for one in FLEET[service]["volumes"]]
    return {there: here for here, there in pairs}


def test_every_service_is_closed_and_its_files_are_there() -> None:
    assert set(FLEET) == {"postgres", "hub", "prometheus", "alertmanager", "grafana"}
    for name, service in FLEET.items():
        held = {key: service.get(key) for key in CLOSED}
        assert name in STOCK or held == CLOSED, name
        files = [one for one in mounts(name).values() if one.startswith(".") and one not in MADE]
        assert [one for one in files if not (DEPLOY / one).is_file()] == []
        assert "latest" not in service["image"]
    one = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["andon"]
    assert {key: one.get(key) for key in CLOSED} == CLOSED


def test_the_hub_takes_its_settings() -> None:
    """A URL with a password is refused."""
    environment = {name: str(value) for name, value in FLEET["hub"]["environment"].items()}
    assert resolve(None, environment, {}).settings.history_store.startswith("postgresql://andon@")


def test_grafana_finds_the_dashboard_and_its_source() -> None:
    files = mounts("grafana")
    provider = yaml.safe_load((DEPLOY / "fleet/grafana/dashboards.yaml").read_text())["providers"]
    assert f"{provider[0]['options']['path']}/andon.json" in files
    source = yaml.safe_load((DEPLOY / "fleet/grafana/datasource.yaml").read_text())["datasources"]
    host, port = re.findall(r"http://(\w+):(\d+)", source[0]["url"])[0]
    assert f"--web.listen-address=0.0.0.0:{port}" in FLEET[host]["command"]
    dashboard = json.loads((DEPLOY / "../grafana/andon.json").read_text())
    assert dashboard["templating"]["list"][0]["query"] == source[0]["type"]


class Fleet:
    """The services as processes here: their own arguments, with places and ports of this test."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.ports = {name: free_port() for name in ("hub", "prometheus", "alertmanager")}
        certificate, key = make_certificate(folder)
        tls = folder / "fleet/tls"
        shutil.copytree(DEPLOY / "fleet", folder / "fleet")
        tls.mkdir()
        certificate.rename(tls / "cert.pem")
        key.rename(tls / "key.pem")
        shutil.copytree(DEPLOY / "../prometheus", folder / "rules")

    def start(self, name: str, *program: str, **env: str) -> None:
        places = {there: self._here(name, here) for there, here in mounts(name).items()}
        command = [self._put(one, places) for one in FLEET[name]["command"]]
        log = self.folder / f"{name}.log"
        self._stack.enter_context(daemon(*program, *command, log=log, **env))

    def health_check(self, andon: Sequence[str]) -> list[str]:
        """The hub's, which asks it by the name in its certificate."""
        text = " ".join(FLEET["hub"]["healthcheck"]["test"][1:])
        text = text.replace("/tls/", f"{self.folder}/fleet/tls/")
        text = text.replace(" andon ", f" {' '.join(andon)} ")
        text = text.replace("/var/lib/andon/", f"{self.folder}/state/andon/")
        return text.replace("26366", str(self.ports["hub"])).split()

    def _here(self, service: str, here: str) -> Path:
        if not here.startswith("."):
            return self.folder / f"volume-{here}"
        if here.startswith("../prometheus"):
            return self.folder / "rules" / Path(here).name
        return self.folder / here

    def _put(self, word: str, places: dict[str, Path]) -> str:
        if word.startswith("${"):
            return "hub.example.org"
        for there, here in sorted(places.items(), reverse=True):
            word = re.sub(rf"(^|=){re.escape(there)}(?=/|$)", rf"\g<1>{here}", word)
        return re.sub(r"0\.0\.0\.0:(\d+)", lambda _: f"127.0.0.1:{self._port(word)}", word)

    def _port(self, word: str) -> int:
        return self.ports["prometheus" if "9090" in word else "alertmanager"]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    need("prometheus", "prometheus-alertmanager", "openssl")
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


@pytest.mark.long
def test_prometheus_scrapes_the_hub_and_knows_the_alertmanager(fleet: Fleet) -> None:
    folder, ports = fleet.folder, fleet.ports
    hub = {
        "XDG_STATE_HOME": str(folder / "state"), "ANDON_PORT": str(ports["hub"]),
        "ANDON_HISTORY": url_of(folder), "ANDON_SIMULATE": "2",
        "SSL_CERT_FILE": str(folder / "fleet/tls/cert.pem"),
    }  # fmt: skip
    andon = (sys.executable, "-m", "andon.cli")
    fleet.start("hub", *andon, **hub)
    wait_until(lambda: "serving https" in (folder / "hub.log").read_text(), "the hub")
    token = str(folder / "state/andon/token")
    url = ("--url", f"https://localhost:{ports['hub']}", "--token-file", token)
    ask = {"env": {"PATH": "/usr/bin:/bin", **hub}, "capture_output": True, "text": True}
    run: Any = subprocess.run
    assert run(fleet.health_check(andon), **ask).returncode == 0
    made = run([*andon, "token", "add", "prometheus", "--role", "read", "-q", *url], **ask)
    assert made.returncode == 0, made.stderr
    (folder / "rules/prometheus.token").write_text(made.stdout.split()[-1])

    config = (folder / "fleet/prometheus.yml").read_text()
    config = config.replace("hub:26366", f"localhost:{ports['hub']}")
    config = config.replace("alertmanager:9093", f"127.0.0.1:{ports['alertmanager']}")
    (folder / "fleet/prometheus.yml").write_text(config)
    for there, here in mounts("prometheus").items():  # beside the configuration, as there
        if there.startswith("/etc/prometheus/") and "prometheus.yml" not in there:
            source = folder / "rules" / Path(there).name
            if "cert.pem" in here:
                source = folder / "fleet/tls/cert.pem"
            shutil.copy(source, folder / "fleet" / Path(there).name)
    fleet.start("alertmanager", "prometheus-alertmanager")
    fleet.start("prometheus", "prometheus")
    wait_until(lambda: _answers(ports["alertmanager"], "/-/ready"), "Alertmanager")
    wait_until(lambda: _answers(ports["prometheus"], "/-/ready"), "Prometheus")
    found = Prometheus(ports["prometheus"])
    wait_until(
        lambda: [s["value"][1] for s in found.query('up{job="andon-hub"}')] == ["1"],
        "a scrape of the hub",
    )
    assert found.query("andon_hub_nodes") or found.query('{__name__=~"andon_hub_.*"}')
    wait_until(lambda: found.get("alertmanagers")["activeAlertmanagers"], "the Alertmanager")
    assert found.get("rules")["groups"] != []


def _answers(port: int, path: str) -> bool:
    try:
        return fetch(port, path)[0] == 200
    except OSError:
        return False
