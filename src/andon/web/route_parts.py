"""What routes need besides the node of a request."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from andon.model.wire import Json
from andon.node.served import ServedNode
from andon.settings.resolution import Settings
from andon.web.answers.health import HealthPart
from andon.web.fleet.nodes import Fleet
from andon.web.history_reader import HistoryReader
from andon.web.transport.keys import Keys

FILES_THREADS = 4  # the files of one user may hang, and must not delay another's


class RouteParts(Struct, frozen=True):
    """The server's own node, who may ask, and the threads that answer requests."""

    node: ServedNode
    keys: Keys
    settings: Settings
    health: Callable[[Mapping[str, HealthPart]], Json]
    """Returns the state of the server with that of these parts."""
    parts: dict[str, HealthPart]
    expose: Callable[[], str]
    """Makes the text of a scrape."""
    sign_in: str | None = None
    """The name of the socket at which this machine's users get their links."""
    past: HistoryReader = field(default_factory=HistoryReader)
    """For requests that read the store."""
    minutes: HistoryReader = field(default_factory=HistoryReader)
    """For requests that read all of the last two minutes."""
    scrapes: HistoryReader = field(default_factory=lambda: HistoryReader(what="metrics"))
    """For the metrics: a hub has many nodes."""
    records: HistoryReader = field(default_factory=lambda: HistoryReader(FILES_THREADS, what="run"))
    """For requests that read the records of runs."""
    queue: HistoryReader = field(default_factory=lambda: HistoryReader(FILES_THREADS, what="job"))
    """For requests that read the folder of jobs."""
    fleet: Fleet | None = None
    """The nodes that report to this server, if it is a hub."""
