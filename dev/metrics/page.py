"""Generates docs/metrics.md from the catalogue."""

from collections.abc import Iterable

from andon.exporter.catalogue import COSTS, DEVICE, ITSELF, NODE, SERVICE, Metric, When

INTRO = """# Metrics

    andon exporter                                  # http://127.0.0.1:26367/metrics
    andon exporter --port 9700 --prefix lab --interval 2s
    andon exporter --simulate 4                     # try it without a GPU

or in code, for a program with its own server (`render()`) or without one:

```python
from andon import PrometheusExporter, get_gpu_monitor

exporter = PrometheusExporter().with_prefix("andon").with_port(26367)
exporter.register_gpu_metrics(get_gpu_monitor())
exporter.start()
```

- A value that a device does not report is absent: a missing series never means 0.
- A device that is lost, stale or asleep has `gpu_info` and `gpu_state` but no readings. A device
  that was removed has no series from the next scrape on.
- The devices are read at the interval, not per scrape; `snapshot_age_seconds` says how old the
  values are.
- `device` is the node's index (`3:0` is the first partition of board 3), `uuid` is the identity.
  A partition's `parent` is in `gpu_info`: do not add up a board and its partitions.
- Labels never contain a pid, process name or command line. They contain users: the 16 largest of
  a device by name, the rest as `(others)`.
- Simulated devices are marked: `simulated` is 1, and `gpu_info` has `simulated="true"`.
- Every name begins with the prefix and `_`, which the tables omit. The first four names are kept
  from the systems that andon replaces; all others use base units.
- Prefix, address and port are settings too: `exporter.prefix` (also used for the server's
  `/metrics`), `exporter.host` and `exporter.port`.

By default it listens on loopback and answers only requests for this machine's own names.
`--host` opens it to other machines, without a password: use a firewall.

[scrape.yml](../deploy/prometheus/scrape.yml) is a scrape configuration,
[andon-rules.yml](../deploy/prometheus/andon-rules.yml) has recording and alerting rules, and
[andon.json](../deploy/grafana/andon.json) is a dashboard for Grafana. A test runs every one of
their queries on a real Prometheus.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            INTRO,
            *_section("A device", "Labels `device` and `uuid`, and those in the table.", DEVICE),
            *_section("The node", "", NODE),
            *_section("andon itself", "", (*ITSELF, *COSTS, *SERVICE)),
        ]
    )


def _section(title: str, words: str, rows: Iterable[Metric]) -> list[str]:
    head = [f"## {title}", "", *([words, ""] if words else [])]
    table = ["| name | kind | unit | labels | what it says | where it comes from |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    return [*head, *table, *map(_line, rows), ""]


def _line(row: Metric) -> str:
    labels = ", ".join(f"`{name}`" for name in row.labels)
    always = " Also for a device that does not respond." if row.when is When.ALWAYS else ""
    cells = (f"`{row.name}`", row.kind, row.unit, labels, row.help + always, f"`{row.source}`")
    return "| " + " | ".join(cells) + " |"
