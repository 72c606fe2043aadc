"""The parts of the demo that come from its simulated lab."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from andon.app.alerts import open_alert_store
from andon.app.history import open_store
from andon.app.runs import open_run_index
from andon.app.sampler import open_sampler
from andon.app.thresholds import rulebook
from andon.drivers.sim.rules.demo import ME, Demo
from andon.host.files import make_private
from andon.host.state.user_folder import runs_folder
from andon.leases.book.lease_book import Book
from andon.runs.index import RunFinder
from andon.sampling.sampler import Sampler
from andon.settings.resolution import Settings
from andon.web.lab import book, filling
from andon.web.lab.jobs import LabJobs, LabUsers
from andon.web.lab.runs import LabFinder, LabHost, LabRuns
from andon.web.run_opening import OpenRuns
from andon.web.transport.keys import Keys

CODE_SECONDS = 86_400.0


def demo_user() -> Iterator[str]:
    """The owner is one of the lab's people, and anyone sees everything."""
    yield ME


def lab(settings: Settings) -> Iterator[Demo]:
    """The lab; the stores of the settings, which must be new, are filled up to now."""
    made = filling.new_lab(settings)
    with closing(open_alert_store(settings)) as alerts:
        filling.fill_alerts(alerts, made, rulebook(settings))
    filling.cordon_one(made)
    with closing(open_store(settings)) as store:
        filling.fill_history(store, made)
    yield made


def sampler(settings: Settings, lab: Demo) -> Iterator[Sampler]:
    with open_sampler(settings, origin=lab.origin, host=LabHost(lab)) as opened:
        yield opened


def desk(lab: Demo) -> Iterator[LabJobs]:
    yield LabJobs(lab)


def open_book(lab: Demo, desk: LabJobs) -> Iterator[Callable[..., Book]]:
    yield book.open_book(lab, desk.queue)


def users(lab: Demo, open_finder: Callable[[], RunFinder]) -> Iterator[LabUsers]:
    look = OpenRuns(ME, open_finder)
    yield LabUsers(lab, look)
    look.close()


def lab_runs(lab: Demo) -> LabRuns:
    """The records of its runs, which grow."""
    folder = runs_folder()
    make_private(folder)
    made = LabRuns(lab, folder)
    made.write(time.time())
    made.start()
    return made


def open_finder(lab_runs: LabRuns) -> Iterator[Callable[[], RunFinder]]:
    yield lambda: LabFinder(open_run_index(), runs_folder())


def code(keys: Keys) -> Iterator[str]:
    """Signs the first visitor in."""
    yield keys.new_code(seconds=CODE_SECONDS)
