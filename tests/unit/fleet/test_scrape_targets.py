"""Where the metrics of nodes are: what a node says of itself, and what Prometheus is told."""

import socket

import pytest
from msgspec.structs import replace

from andon.app.uplink import metrics_url
from andon.errors import Invalid
from andon.fleet.rules.digest import Digest, decoded, digest_of, encoded
from andon.fleet.rules.nodes import FleetNode
from andon.fleet.rules.states import row_of, scrape_targets
from andon.settings.resolution import Settings
from andon.web.listening import Listening
from tests.support.rows import rows
from tests.support.snapshots import farm

URL = "https://n17.lab:26366"
NODE = FleetNode("n17", "hash", 1.0, heard=1.0, sent=1.0)
DIGEST = Digest("n17", "m", "1.0", gpus=8, metrics=URL)


def test_a_node_with_metrics_of_its_own_is_a_target_also_while_it_is_silent() -> None:
    found = [row_of(NODE, DIGEST, age) for age in (1.0, 300.0)]
    found.append(row_of(NODE, replace(DIGEST, metrics=None), 1.0))
    found.append(row_of(NODE, None, None))
    target = {"targets": ["n17.lab:26366"], "labels": {"node": "n17", "__scheme__": "https"}}
    assert scrape_targets(found) == [target, target]
    assert scrape_targets(()) == []


@rows("url, is_one", [
    (URL, True),
    ("http://10.0.0.7:80", True),
    ("http://[2001:db8::1]:26366", True),
    ("http://n17", False),
    ("ftp://n17:21", False),
    ("http://n17:80/metrics?x=1", False),
    ("http://user@n17:80", False),
    ("http://n17:80\n", False),
    ("http://n17:80 http://n18:80", False),
    ("http://" + "n" * 300 + ":80", False),
])  # fmt: skip
def test_only_an_address_is_sent_and_taken(url: str, is_one: bool) -> None:
    own = digest_of(farm(), None, (), {}, {}, "m", "1.0", url)
    assert own.metrics == (url if is_one else None)
    sent = encoded(replace(DIGEST, metrics=url))
    if is_one:
        assert decoded(sent).metrics == url
    else:
        with pytest.raises(Invalid, match="metrics"):
            decoded(sent)


def test_a_server_that_others_reach_has_the_metrics_of_its_node() -> None:
    with socket.socket() as port:
        place = Listening(port, "10.0.0.7", 26366, URL, loopback=False)
    assert metrics_url(Settings(), place) == URL
    assert metrics_url(Settings(), replace(place, loopback=True)) is None


def test_an_exporter_is_named_while_it_answers_and_others_reach_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as exporter:
        port = exporter.getsockname()[1]
        everywhere = Settings(exporter_host="0.0.0.0", exporter_port=port)
        assert metrics_url(everywhere, None) == f"http://{socket.gethostname()}:{port}"
        assert metrics_url(replace(everywhere, exporter_host="127.0.0.1"), None) is None
    assert metrics_url(everywhere, None) is None
