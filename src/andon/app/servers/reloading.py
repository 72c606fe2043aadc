"""Reads settings and tokens again at SIGHUP: all of them, or none where one is wrong."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Protocol

from msgspec.structs import replace

from andon.alerts.watcher import Watcher
from andon.app.leases import labels_of, refuse_ambiguous_names
from andon.app.messages.digest import recipients
from andon.app.messages.personal import watching_notifiers
from andon.app.thresholds import rulebook
from andon.errors import AndonError
from andon.failures.log import FailureLog
from andon.host.service_manager import ServiceManager
from andon.host.state.user_folder import state_folder
from andon.leases.network import NetworkLeases
from andon.node.watched.live import WatchedLive
from andon.settings.reloading import ReloadedSettings, reloaded
from andon.settings.resolution import Settings
from andon.web.transport.keys import Keys, make_token

log = logging.getLogger("andon.serve")
TERMINAL = "/dev/tty"


class FleetWatcher(Protocol):
    """What watches the nodes of a hub, by the settings in force."""

    def renew(self) -> None: ...


class SettingsInForce:
    """The settings, which a reload replaces."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings


def in_force(settings: Settings, linked: Settings | None = None) -> Iterator[SettingsInForce]:
    yield SettingsInForce(linked or settings)


class Reloads:
    """A thread that reads the settings again whenever a signal arrives."""

    def __init__(self, reload: Callable[[], str], service: ServiceManager) -> None:
        """`reload` returns what changed, and raises AndonError if all stays as it is."""
        self._reload, self._service = reload, service
        self._failures = FailureLog("andon.serve", "the settings stay as they are")
        self._wanted = SimpleQueue[bool]()  # a signal may interrupt whatever holds a lock
        self._thread = threading.Thread(target=self._loop, name="andon reload", daemon=True)
        self._thread.start()
        signal.signal(signal.SIGHUP, lambda *_: self._wanted.put(True))

    def close(self) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._wanted.put(False)
        self._thread.join()

    def _loop(self) -> None:
        while self._wanted.get():
            self._service.reloading()
            status = "the settings stay as they are: one is wrong"
            try:
                status = self._reload()
                log.warning("%s", status, extra={"counted": True})
            except AndonError as exc:
                mistakes = "; ".join(exc.mistakes or (exc.reason,))
                log.error("the settings stay as they are: %s", mistakes, extra={"counted": True})
            except Exception as exc:  # noqa: BLE001 - logged; the server goes on as it is
                self._failures.add(exc)
            self._service.ready(status)


def reloads(
    in_force: SettingsInForce,
    service: ServiceManager,
    live: WatchedLive,
    watcher: Watcher,
    network_leases: NetworkLeases | None,
    reread: Callable[[], Settings] | None = None,
    keys: Keys | None = None,
    fleet_alerts: FleetWatcher | None = None,
) -> Reloads | None:
    """None in a terminal, whose end ends the server, and where nothing can be read again."""
    if reread is None or not hasattr(signal, "SIGHUP") or _has_terminal():
        return None
    read = reread

    def reload() -> str:
        """Makes everything that may fail first."""
        given = read()
        board_url = given.alerts_board_url or in_force.settings.alerts_board_url
        found = reloaded(in_force.settings, replace(given, alerts_board_url=board_url))
        settings, snapshot = found.settings, live.last
        if snapshot is not None:
            refuse_ambiguous_names(settings, snapshot.devices)
        recipients(settings)
        labels, token = labels_of(settings), None if keys is None else make_token(state_folder())
        _judge_by(found, watcher, "" if snapshot is None else snapshot.node)
        in_force.settings = settings
        if network_leases is not None:
            network_leases.relabel(labels)
        if fleet_alerts is not None:
            fleet_alerts.renew()
        ended = keys is not None and token is not None and keys.renew_token(token)
        return found.text + "; the token: all sessions have ended" * ended

    return Reloads(reload, service)


def _judge_by(found: ReloadedSettings, watcher: Watcher, node: str) -> None:
    settings, book = found.settings, rulebook(found.settings)
    watcher.judge_by(book, watching_notifiers(settings, node), found.same_notifiers)


def _has_terminal() -> bool:
    """Whether this process belongs to a terminal: SIGHUP says that it was closed."""
    with suppress(OSError):
        os.close(os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY))
        return True
    return False
