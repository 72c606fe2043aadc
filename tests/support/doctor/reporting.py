"""The doctor on what goes to a hub and to other systems."""

from collections.abc import Iterator

from msgspec.structs import replace

from andon.doctor.rules.facts import OutgoingReports, Reporting
from tests.support.doctor.case import WARN, C, Case, case
from tests.support.doctor.machines import server
from tests.support.snapshots import AT

HUB = OutgoingReports("the hub", "https://hub:26366", "andon agent --hub https://hub:26366")
EXPORT = OutgoingReports("export grafana", "http://db:9090/api/v1/write", "andon serve")


def reports() -> Iterator[Case]:
    heard = replace(HUB, acknowledged=AT - 20, since=AT - 20)
    idle = replace(EXPORT, acknowledged=AT - 600)
    waits = replace(
        EXPORT, acknowledged=AT - 7200, since=AT - 7185, waiting=480, size_bytes=3 << 20
    )
    for name, link, wrong, says in (
        ("a hub that answers", heard, None, "https://hub:26366: last acknowledged 20 s ago"),
        (
            "a hub that is away",
            replace(HUB, acknowledged=AT - 7200, since=AT - 7200),
            C.REPORTS_WAIT,
            "last acknowledged 2 h ago|is it running there?",
        ),
        ("an export without anything to send", idle, None, "last acknowledged 10 min ago"),
        ("an export that begins", EXPORT, None, "nothing was acknowledged yet"),
        ("a short queue", replace(idle, since=AT - 40, waiting=1, size_bytes=9), None, "1 request"),
        (
            "a long queue",
            replace(waits, dropped=1200),
            C.REPORTS_WAIT,
            "480 requests (3.0 MiB) in the queue, the oldest for |, 1,200 dropped",
        ),
    ):
        facts = replace(server(), reporting=Reporting(True, (link,)))
        yield case(name, facts, *([(wrong, WARN)] if wrong else []), says=says)
    for link, start in ((heard, "andon agent --hub https://hub:26366"), (waits, "andon serve")):
        yield case(
            f"nobody sends to {link.name}",
            replace(server(), reporting=Reporting(False, (link,))),
            (C.REPORTS_STOPPED, WARN),
            says=f"no server or agent of yours runs here|{start}",
        )
