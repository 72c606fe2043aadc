"""Which devices are free, as the text and JSON of `andon free`; pure."""

from collections.abc import Sequence

from andon.cli.show import cells
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, styled, with_mark
from andon.leases.refusal import clock
from andon.leases.rules.offer import Offer, OfferRow
from andon.model.codec import to_json
from andon.model.naming import range_of, short_model
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.model.wire import Json

SCHEMA = "andon.free/1"
FREE = "FREE GiB"
NOT_REQUESTED = "not_requested"  # the obstacle of a device that was not requested


def render_offer(found: Offer, wants_more: bool, width: int, later: str = "") -> list[Text]:
    """The answer in the first line, then a table; `wants_more`: more than any one GPU was
    requested; `later`: the time to come that it is about."""
    rows = [row for row in found.rows if row.verdict.code != NOT_REQUESTED]
    lines = with_mark(
        [_answer(found, later) if wants_more else _count(rows)],
        "SIMULATED" if found.simulated else "",
        width,
    )
    columns = [one for one in _columns(found.at) if not (later and one.title == FREE)]
    lines += draw(columns, [TableRow(row) for row in rows], width)
    return [line.fit(width) for line in lines]


def _count(rows: Sequence[OfferRow]) -> Text:
    free = [row.verdict.label for row in rows if row.is_free]
    text = f"{len(free)} of {len(rows)} free"
    if not free:
        return styled(text, "bold")
    return styled(f"{text}: ", "bold") + styled(f"GPU {range_of(free)}", "bold green")


def _answer(found: Offer, later: str) -> Text:
    """`yes: 2 GPUs are free: GPU 4, 6`."""
    chosen = [row.verdict.label for row in found.rows if row.chosen]
    if chosen:
        text = f"{are_free(found, bool(later))}{later}: "
        return (
            styled("yes: ", "bold green") + styled(text) + styled(f"GPU {range_of(chosen)}", "bold")
        )
    free = sum(row.is_free for row in found.rows)
    reason = found.reason or f"{found.requested} requested, {free} free"
    return styled("no: ", "bold yellow") + styled(reason)


def are_free(found: Offer, later: bool = False) -> str:
    """Returns `2 GPUs are free`."""
    one = found.requested.startswith("1 GPU")
    return f"{found.requested} {'will be' if later else 'is' if one else 'are'} free"


def _columns(at: float) -> tuple[TableColumn[OfferRow], ...]:
    return (
        TableColumn("", _mark),
        TableColumn("GPU", lambda row: styled(row.verdict.label, "bold"), gap=1),
        TableColumn("MODEL", lambda row: styled(short_model(row.model)), rank=2, elastic=6),
        TableColumn(FREE, lambda row: styled(cells.gib(row.free_bytes)), rank=1, right=True),
        TableColumn("WHY NOT", lambda row: styled(why_not(row.verdict, at)), rank=1, elastic=12),
    )


def _mark(row: OfferRow) -> Text:
    """Returns the mark of a row; not a lamp, because a free or held device may be ill or well."""
    return styled("✓", "green") if row.is_free else styled(" ")


def why_not(verdict: DeviceVerdict, at: float) -> str:
    """Returns the reason, people first: `held by alice until 14:20 (lease k7qm2)`, `in use by
    bob without a lease`."""
    if verdict.kind is VerdictKind.FREE:
        return ""
    reason = verdict.reason or "the reason is not known"
    if verdict.kind is VerdictKind.HELD and verdict.lease is not None:
        until = "" if verdict.until is None else f" until {clock(verdict.until, at)}"
        more = "" if verdict.code == "leased" else f": {reason}"
        return f"held by {verdict.by}{until} (lease {verdict.lease}){more}"
    if verdict.kind is VerdictKind.IN_USE and verdict.by is not None:
        alone = verdict.code == "unleased_process"  # `andon ps` has the details
        return f"in use by {verdict.by}" + (" without a lease" if alone else f": {reason}")
    return reason


def offer_to_json(found: Offer) -> Json:
    return {
        "schema": SCHEMA,
        "at": found.at,
        "simulated": found.simulated,
        "requested": found.least,
        "available": found.available,
        "free": [row.verdict.index for row in found.rows if row.is_free],
        "chosen": [row.verdict.uuid for row in found.rows if row.chosen],
        "reason": found.reason,
        "devices": [
            {
                **to_json(row.verdict),
                "name": row.model,
                "free_bytes": row.free_bytes,
                "utilization_percent": row.utilization_percent,
                "score": None if row.score is None else round(row.score, 4),
                "chosen": row.chosen,
            }
            for row in found.rows
        ],
    }
