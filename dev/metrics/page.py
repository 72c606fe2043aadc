"""docs/metrics.md, made from the catalogue."""

from collections.abc import Iterable

from andon.exporter.catalogue import (
    COSTS,
    DEVICE,
    HUB_GPU,
    HUB_NODE,
    ITSELF,
    NODE,
    SERVER,
    SERVICE,
    ExportWhen,
    Metric,
)

UNITS = {
    "bytes": "bytes", "celsius": "°C", "hertz": "Hz", "joules": "J", "percent": "0 to 100",
    "ratio": "0 to 1", "second": "bytes/s", "seconds": "s", "watts": "W", "info": "always 1",
}  # fmt: skip

INTRO = """# Metrics

<!-- not run: runs until it is ended -->

    andon exporter                                  # http://127.0.0.1:26367/metrics
    andon exporter --port 9700 --prefix lab --interval 2s
    andon exporter --simulate 4                     # without a GPU

[From Python](python.md#metrics-sparklines-tests) a program serves them itself.

- A value that a device does not report has no series; it is never exported as 0.
- A device that is lost, stale or asleep has `gpu_info` and `gpu_state` and no readings. A removed
  device has no series from the next scrape on.
- The devices are sampled at the interval, not per scrape; `snapshot_age_seconds` says how old the
  values are.
- `device` is the node's index (`3:0` is the first partition of board 3), `uuid` is the identity.
  `gpu_info` has a partition's `parent`: do not add up a board and its partitions.
- Labels never contain a pid, a process name or a command line. They do contain users: the 16
  largest of each device by name, the others as `(others)`.
- A rate (`_bytes_per_second`) is the mean since the reading before, 5 to 10 s ago: the driver's
  counters wrap too fast to be exported. Those of network interfaces do not, and are exported.
- Simulated devices are marked: `simulated` is 1, and `gpu_info` has `simulated="true"`.
- Every name begins with the prefix and `_`, which the tables leave out. The first four names have
  fixed units, per cent included; all others use base units.
- Prefix, address and port are also settings: `exporter.prefix` (which also applies to the server's
  `/metrics`), `exporter.host` and `exporter.port`.

By default the exporter listens on loopback and answers only to this machine's own names. `--host`
opens it to other machines, without a password: use a firewall.

A server can also [send its metrics](exports.md) by remote-write or OTLP.

[scrape.yml](../deploy/prometheus/scrape.yml) is a scrape configuration,
[andon-rules.yml](../deploy/prometheus/andon-rules.yml) has recording and alerting rules, and
[andon.json](../deploy/grafana/andon.json) is a dashboard for Grafana. A test runs every one of
their queries on a real Prometheus.
"""


OF_HUB = """\
Only in the `/metrics` and exports of a [hub](fleet.md#prometheus), with the label `node`, unless
`hub.metrics` is `off`. A silent node has its state, its age and whether it is drained, and no
readings. While the hub cannot store reports, nodes that seem silent have no series."""
OF_NODE = """\
Only where `hub.metrics` is `devices`: of nodes that are not silent, with the labels `node`,
`device` and `uuid`."""


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            INTRO,
            *_section(
                "A device",
                "Every series has the labels `device` and `uuid`, and those in the table.",
                DEVICE,
            ),
            *_section("The node", "", NODE),
            *_section("andon itself", "", (*ITSELF, *COSTS, *SERVICE)),
            *_section("The server", "Only in the `/metrics` of `andon serve`.", SERVER),
            *_section("A node of a hub", OF_HUB, HUB_NODE, "a silent node"),
            *_section("A GPU of a node of a hub", OF_NODE, HUB_GPU),
        ]
    )


def _section(
    title: str, words: str, rows: Iterable[Metric], silent: str = "a device that does not answer"
) -> list[str]:
    head = [f"## {title}", "", *([words, ""] if words else [])]
    table = ["| name | kind | unit | labels | what it says | where it comes from |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    return [*head, *table, *(_line(row, silent) for row in rows), ""]


def _line(row: Metric, silent: str) -> str:
    labels = ", ".join(f"`{name}`" for name in row.labels)
    always = f" Also of {silent}." if row.when is ExportWhen.ALWAYS else ""
    unit = UNITS.get(row.name.removesuffix("_total").rpartition("_")[2], "")
    cells = (f"`{row.name}`", row.kind, unit, labels, row.help + always, f"`{row.source}`")
    return "| " + " | ".join(cells) + " |"
