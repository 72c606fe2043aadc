"""Caches how processes that use devices are related, for parts that ask at every sample."""

from collections.abc import Iterable

from andon.host.processes.kin import read_kin
from andon.model.device import Process
from andon.model.lease import Kin


class KnownKin:
    """Relations of processes, each read once: they last as long as the process."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, float | None], Kin] = {}

    def of(self, processes: Iterable[Process]) -> dict[int, Kin]:
        """Returns the relations of the visible processes; the cache keeps only these."""
        keys = {(one.pid, one.started) for one in processes}
        known = {key: kin for key in keys if (kin := self._known.get(key)) is not None}
        found = read_kin([pid for pid, _ in keys - known.keys()], containers=True)
        known |= {key: found[key[0]] for key in keys if key not in known and key[0] in found}
        # Without its start time, a process cannot be distinguished from a later one with its pid.
        self._known = {key: kin for key, kin in known.items() if key[1] is not None}
        return {pid: kin for (pid, _), kin in known.items()}
