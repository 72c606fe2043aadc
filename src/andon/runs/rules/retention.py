"""Which records of the state folder are deleted: the oldest, and none that people marked."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from andon.model.run.record import RunRow, RunState

DAY_SECONDS = 86_400.0


class RetentionPolicy(Struct, frozen=True):
    """The age and total size beyond which records are deleted."""

    seconds: float
    most_bytes: int


class StoredRecord(Struct, frozen=True):
    """A record of the state folder, and its size."""

    row: RunRow
    size_bytes: int


def overdue(
    records: Sequence[StoredRecord],
    policy: RetentionPolicy,
    now: float,
    baselines: AbstractSet[str],
) -> list[StoredRecord]:
    """Returns the records that are too old, and then the oldest until the rest fits."""
    total = sum(record.size_bytes for record in records)
    out: list[StoredRecord] = []
    for record in sorted(records, key=lambda one: one.row.began):
        row = record.row
        too_old = row.began < now - policy.seconds
        marked = row.tags or row.id in baselines or row.state is RunState.RUNNING
        if (too_old or total > policy.most_bytes) and not marked:
            total -= record.size_bytes
            out.append(record)
    return out
