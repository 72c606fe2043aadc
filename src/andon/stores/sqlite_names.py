"""The database's numbers for devices and series; read once, kept in memory."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from andon.model.device import Device
from andon.stores.sqlite_head import HeadLayout
from andon.stores.statements import statements

SQL = statements("sqlite")
MOST_LAYOUTS = 256  # varying readings create one for each combination


class Ids(NamedTuple):
    """A device and one series of it."""

    device: int
    series: int


class NameTable:
    """The database's number of each device and series. Only the writing connection adds to it."""

    def __init__(self) -> None:
        self.known = False
        self._devices: dict[str, int] = {}
        self._series: dict[tuple[str, str], int] = {}
        self._layouts: dict[tuple[tuple[str, tuple[str, ...]], ...], HeadLayout] = {}
        self._described: dict[str, Device] = {}

    def load(self, connection: sqlite3.Connection) -> None:
        """Read what is there, and forget the rest."""
        self.known = True
        self._layouts.clear()
        self._described.clear()
        self._devices = {row[1]: row[0] for row in connection.execute(SQL["list_devices"])}
        rows = connection.execute(SQL["list_series"])
        self._series = {(uuid, metric): number for uuid, metric, number in rows}

    def forget(self) -> None:
        """After a failed transaction: what it added does not exist."""
        self.known = False

    def describe(self, connection: sqlite3.Connection, devices: Sequence[Device]) -> None:
        """Store a device's name and index where they are new."""
        for device in devices:
            if self._described.get(device.uuid) != device:
                facts = {
                    "uuid": device.uuid,
                    "position": device.index,
                    "vendor": device.vendor,
                    "name": device.name,
                }
                connection.execute(SQL["describe_device"], facts)
                self._described[device.uuid] = device

    def device(self, connection: sqlite3.Connection, uuid: str) -> int:
        if uuid not in self._devices:
            connection.execute(SQL["add_device"], (uuid,))
            self._devices = {row[1]: row[0] for row in connection.execute(SQL["list_devices"])}
        return self._devices[uuid]

    def series(self, connection: sqlite3.Connection, uuid: str, metric: str) -> int:
        key = (uuid, metric)
        if key not in self._series:
            connection.execute(SQL["add_series"], (self.device(connection, uuid), metric))
            found = connection.execute(SQL["find_series"], key).fetchone()
            self._series[key] = Ids(*found).series
        return self._series[key]

    def layout(
        self, connection: sqlite3.Connection, given: tuple[tuple[str, tuple[str, ...]], ...]
    ) -> HeadLayout:
        """The series of a tick's values, by its devices and their metrics."""
        found = self._layouts.get(given)
        if found is None:
            series = [self.series(connection, uuid, m) for uuid, metrics in given for m in metrics]
            found = HeadLayout.of(self.device(connection, given[0][0]), series)
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[given] = found
        return found


def find(connection: sqlite3.Connection, uuid: str, metric: str) -> Ids | None:
    """For a reading connection, which may see what another process added."""
    found = connection.execute(SQL["find_series"], (uuid, metric)).fetchone()
    return Ids(*found) if found else None
