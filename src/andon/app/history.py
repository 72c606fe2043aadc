"""The history's store: chooses and opens it by the settings, with its retention."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from andon.errors import Gone, Invalid, Unavailable
from andon.history.rules.tiers import DAY_SECONDS, Retention
from andon.host.machine_id import node_name
from andon.host.state.node_folder import node_folder
from andon.host.state.user_folder import HISTORY
from andon.ports import Store, StoreKind
from andon.registry import STORES, load
from andon.settings.resolution import Settings
from andon.settings.store_url import MEMORY, StoreUrl, parse_store_url, url_of_file

if TYPE_CHECKING:  # not every command reads history
    from andon.history.writer import Maintainer

NOTHING = "andon serve records history; andon seed generates sample history"


def store_url(settings: Settings) -> StoreUrl:
    """Returns the store that is named, or the file in this machine's folder."""
    if settings.history_store:
        return parse_store_url(settings.history_store)
    return url_of_file(str(node_folder() / HISTORY))


def store_node(settings: Settings) -> str:
    """The name that this node has in its store; the file in a machine's folder needs none."""
    return (settings.node or node_name()) if settings.history_store else ""


def store_kind(url: StoreUrl) -> StoreKind:
    """The class for the URL's scheme; Invalid if there is no such store."""
    try:
        return cast("StoreKind", load(STORES, url.scheme))
    except Invalid as exc:
        raise Invalid(f"no such store: {str(url)[:200]}", hint=exc.hint) from exc


def open_store(settings: Settings, readonly: bool = False) -> Store:
    """The store of the settings; read-only, it is never created, repaired or changed."""
    url = store_url(settings)
    return store_kind(url).open(url, store_node(settings), readonly)


def store_files(settings: Settings) -> Mapping[str, Path]:
    """The store's files on this machine, by purpose; none where it has none."""
    url = store_url(settings)
    return store_kind(url).files(url)


def find_store(settings: Settings) -> Store | None:
    """The store, read-only; None where nothing has been recorded yet."""
    try:
        return open_store(settings, readonly=True)
    except Gone:
        return None


def open_past(settings: Settings) -> Store:
    """The store, read-only; Unavailable where nothing has been recorded yet."""
    try:
        return open_store(settings, readonly=True)
    except Gone as exc:
        raise Unavailable(f"no history yet: {exc.reason}", hint=exc.hint or NOTHING) from exc


def retention_of(settings: Settings) -> Retention:
    """How long each tier is kept, and how much space it may take."""
    return Retention(
        raw_seconds=settings.history_raw_days * DAY_SECONDS,
        minute_seconds=settings.history_minute_days * DAY_SECONDS,
        hour_seconds=settings.history_hour_days * DAY_SECONDS,
        most_bytes=settings.history_max_megabytes * 1_000_000,
    )


def maintainer_of(settings: Settings, store: Store) -> "Maintainer":
    """Keeps the store within the limits of the settings."""
    from andon.history.writer import Maintainer

    return Maintainer(store, retention_of(settings))


def separate_history(settings: Settings) -> Settings:
    """Simulated and replayed readings do not go into this node's history."""
    unreal = settings.simulate or settings.replay
    if unreal and not settings.history_store:
        return replace(settings, history_store=MEMORY)
    return settings
