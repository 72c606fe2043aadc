"""The metrics as remote-write and as OTLP: the same series and values as in the text."""

import gzip
import os
import re
import struct
from collections.abc import Iterator

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from andon.exporter import Exposition
from andon.exporter.catalogue import ALL
from andon.exporter.exports import packer
from andon.exporter.rules.otlp import CONVENTIONS, GAUGE, UNITS, OtlpMessages, otlp_metric
from andon.exporter.rules.remote_write import RemoteWriteMessages, varint
from andon.exporter.spreads import ExportCounts, ServerCounts
from andon.settings.exports import OTLP, REMOTE_WRITE, ExportSettings
from tests.conftest import REPOSITORY
from tests.support.exposition import parse
from tests.support.fleet_readings import FLEET
from tests.support.full_snapshot import FULL
from tests.support.snapshots import AT, farm

COUNTS = ServerCounts(1, {"info": 2}, 3, exports=(ExportCounts("lab", 5, 1, 2, 0, 9),), fleet=FLEET)
Series = dict[frozenset[tuple[str, str]], float]


def text_of(prefix: str = "andon") -> str:
    return Exposition(prefix).render(FULL, None, FULL.at, counts=COUNTS)


def scraped(text: str) -> Series:
    """Every series of a text, by its name and labels."""
    return {
        labels | {("__name__", name)}: value
        for name, family in parse(text).items()
        for labels, value in family.series.items()
    }


def fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """A reader of protobuf of its own, which knows no message."""
    at = 0
    while at < len(message):
        tag, at = number(message, at)
        if tag & 7 == 1:
            yield tag >> 3, message[at : at + 8]
            at += 8
        elif tag & 7 == 2:
            size, at = number(message, at)
            yield tag >> 3, message[at : at + size]
            at += size
        else:
            assert tag & 7 == 0
            value, at = number(message, at)
            yield tag >> 3, value


def number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at


def written(message: bytes) -> tuple[Series, set[int], list[bytes]]:
    """The series of a remote-write message, its times, and the raw values."""
    found: Series = {}
    times, raw = set(), []
    for outer, body in fields(message):
        assert outer == 1
        assert isinstance(body, bytes)
        parts = list(fields(body))
        labels = [dict(fields(part)) for key, part in parts if key == 1 and isinstance(part, bytes)]
        pairs = [(bytes(one[1]).decode(), bytes(one[2]).decode()) for one in labels]
        assert [name for name, _ in pairs] == sorted({name for name, _ in pairs})
        ((_, sample),) = [one for one in parts if one[0] == 2]
        assert isinstance(sample, bytes)
        values = dict(fields(sample))
        assert isinstance(values[1], bytes)
        assert isinstance(values[2], int)
        raw.append(values[1])
        times.add(values[2])
        found[frozenset(pairs)] = struct.unpack("<d", values[1])[0]
    return found, times, raw


def test_remote_write_holds_every_series_of_a_scrape_with_its_value_and_time() -> None:
    text = text_of()
    own = frozenset({("job", "andon"), ("instance", "n1")})
    found, times, _ = written(RemoteWriteMessages(dict(own)).make(text, AT))
    assert found == {labels | own: value for labels, value in scraped(text).items()}
    assert times == {round(AT * 1000)}


def test_labels_of_a_series_beat_those_of_the_settings() -> None:
    message = RemoteWriteMessages({"device": "x"}).make('a{device="1\\\\\\"\\n"} 1\nb 2\n', AT)
    assert set(written(message)[0]) == {
        frozenset({("__name__", "a"), ("device", '1\\"\n')}),
        frozenset({("__name__", "b"), ("device", "x")}),
    }


def test_a_series_that_is_gone_is_marked_as_ended_once() -> None:
    messages = RemoteWriteMessages({})
    messages.make("a 1\nb 2\n", AT)
    _, _, raw = written(messages.make("a 3\n", AT))
    assert raw == [struct.pack("<d", 3), bytes.fromhex("020000000000f07f")]
    assert len(written(messages.make("a 3\n", AT))[0]) == 1


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**40])
def test_numbers_are_written_as_protobuf_does(value: int) -> None:
    assert number(varint(value), 0) == (value, len(varint(value)))


def test_what_is_sent_is_compressed() -> None:
    from cramjam import snappy

    pack, headers = packer(ExportSettings("x", REMOTE_WRITE, ""), "andon", "n1")
    assert len(written(bytes(snappy.decompress_raw(pack(text_of(), AT))))[0]) == len(
        scraped(text_of())
    )
    assert headers["Content-Encoding"] == "snappy"
    pack, headers = packer(ExportSettings("x", OTLP, ""), "andon", "n1")
    assert gzip.decompress(pack(text_of(), AT)).startswith(b'{"resourceMetrics"')
    assert headers["Content-Encoding"] == "gzip"


# OTLP.


def received(text: str, prefix: str = "andon") -> ExportMetricsServiceRequest:
    """The message as the reference reader of the protocol understands it; strictly."""
    body = OtlpMessages(prefix, "n1", {"cluster": "lab"}).make(text, AT)
    message = ExportMetricsServiceRequest()
    json_format.Parse(body, message)
    return message


def test_otlp_holds_every_series_of_a_scrape_with_its_value_and_time() -> None:
    text = text_of()
    ((scope,),) = [one.scope_metrics for one in received(text).resource_metrics]
    names = {f"andon_{row.name}": otlp_metric(row, "andon") for row in ALL}
    wanted = sorted(
        (names[dict(labels)["__name__"]].name, value * names[dict(labels)["__name__"]].factor)
        for labels, value in scraped(text).items()
    )
    found = sorted(
        (metric.name, point.as_double)
        for metric in scope.metrics
        for point in (metric.gauge.data_points or metric.sum.data_points)
    )
    assert found == wanted
    assert len({metric.name for metric in scope.metrics}) == len(scope.metrics)
    times = {p.time_unix_nano for m in scope.metrics for p in m.gauge.data_points}
    assert times == {round(AT * 1000) * 1_000_000}


def test_devices_are_named_by_the_conventions() -> None:
    (resource,) = received(text_of()).resource_metrics
    about = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert about.items() >= {"service.name": "andon", "host.name": "n1", "cluster": "lab"}.items()
    metrics = {one.name: one for one in resource.scope_metrics[0].metrics}
    energy, power, used = metrics["hw.energy"], metrics["hw.power"], metrics["hw.gpu.memory.usage"]
    assert (energy.unit, energy.sum.is_monotonic, energy.sum.aggregation_temporality) == (
        "J", True, 2,
    )  # fmt: skip
    assert (used.unit, used.sum.is_monotonic) == ("By", False)
    point = {one.key: one.value.string_value for one in power.gauge.data_points[0].attributes}
    assert point.keys() == {"hw.type", "hw.id", "hw.name"}
    assert point["hw.type"] == "gpu"
    shares = [p.as_double for p in metrics["hw.gpu.utilization"].gauge.data_points]
    assert all(0 <= share <= 1 for share in shares)


def test_a_series_has_one_point_in_each_message() -> None:
    for snapshot in (farm(), FULL):
        (resource,) = received(Exposition().render(snapshot, None, AT)).resource_metrics
        for metric in resource.scope_metrics[0].metrics:
            points = metric.gauge.data_points or metric.sum.data_points
            series = [tuple(sorted(str(a) for a in point.attributes)) for point in points]
            assert len(set(series)) == len(series), metric.name


def test_other_names_become_those_of_the_catalogue_again_in_prometheus() -> None:
    """Prometheus adds the unit and `_total` to the name of an OTLP metric."""
    endings = {unit: ending for ending, unit in UNITS.items()}
    for row in ALL:
        if row.name in CONVENTIONS:
            continue
        metric = otlp_metric(row, "lab")
        made = metric.name.replace(".", "_") + endings.get(metric.unit, "")
        assert made + "_total" * (metric.form == "counter") == f"lab_{row.name}"
        assert metric.help


def test_every_convention_is_of_a_metric_that_exists() -> None:
    assert {row.name for row in ALL} >= CONVENTIONS.keys()
    assert {one.name.partition(".")[0] for one in CONVENTIONS.values()} == {"hw", "system"}


def conventions() -> str:
    """The table of docs/exports.md."""
    lines = ["| OTLP | unit | attributes | from |", "|---|---|---|---|"]
    for name, metric in CONVENTIONS.items():
        kind = "" if metric.form == GAUGE else metric.form
        factor = f" × {metric.factor:g}" if metric.factor != 1 else ""
        keys = ", ".join(f"`{key}={value}`" for key, value in metric.attributes.items())
        first = f"`{metric.name}`" + (f" ({kind})" if kind else "")
        lines.append(f"| {first} | `{metric.unit}` | {keys} | `{name}`{factor} |")
    return "\n".join(lines)


def test_the_golden_table_of_the_page_has_every_convention() -> None:
    path = REPOSITORY / "docs/exports.md"
    begin = "<!-- generated: conventions of OTLP -->"
    made = f"{begin}\n\n{conventions()}\n\n<!-- end -->"
    page = path.read_text(encoding="utf-8")
    wanted = re.sub(f"{begin}.*?<!-- end -->", lambda _: made, page, flags=re.DOTALL)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(wanted, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == wanted, "make golden, and look"


def test_another_prefix_is_kept() -> None:
    (resource,) = received(text_of("lab"), "lab").resource_metrics
    names = {metric.name for metric in resource.scope_metrics[0].metrics}
    assert "lab.export_sent" in names
    assert not [name for name in names if name.startswith("andon")]
