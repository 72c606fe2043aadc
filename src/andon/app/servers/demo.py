"""The parts that only `andon demo` has: its simulated machine and people."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

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
from andon.web.demo import filling
from andon.web.demo.book import DemoBook
from andon.web.demo.jobs import DemoJobs, DemoUsers
from andon.web.demo.runs import DemoFinder, DemoHost, DemoRuns
from andon.web.run_opening import OpenRuns
from andon.web.transport.keys import Keys

CODE_SECONDS = 86_400.0


def demo_user() -> Iterator[str]:
    """The owner is one of the simulated people, and anyone sees everything."""
    yield ME


def simulation(settings: Settings) -> Iterator[Demo]:
    """Fills the stores of the settings, which must be new, up to now."""
    made = filling.new_demo(settings)
    with closing(open_alert_store(settings)) as alerts:
        filling.fill_alerts(alerts, made, rulebook(settings))
    filling.cordon_one(made)
    with closing(open_store(settings)) as store:
        filling.fill_history(store, made)
    yield made


def sampler(settings: Settings, simulation: Demo) -> Iterator[Sampler]:
    with open_sampler(settings, origin=simulation.origin, host=DemoHost(simulation)) as opened:
        yield opened


def desk(simulation: Demo) -> Iterator[DemoJobs]:
    yield DemoJobs(simulation)


def open_book(simulation: Demo, desk: DemoJobs) -> Iterator[Callable[..., Book]]:
    yield partial(DemoBook, simulation, desk.queue)


def users(simulation: Demo, open_finder: Callable[[], RunFinder]) -> Iterator[DemoUsers]:
    runs = OpenRuns(ME, open_finder)
    yield DemoUsers(simulation, runs)
    runs.close()


def demo_runs(simulation: Demo) -> DemoRuns:
    """The records of its runs, which grow."""
    folder = runs_folder()
    make_private(folder)
    made = DemoRuns(simulation, folder)
    made.write(time.time())
    made.start()
    return made


def open_finder(demo_runs: DemoRuns) -> Iterator[Callable[[], RunFinder]]:
    yield lambda: DemoFinder(open_run_index(), runs_folder())


def code(keys: Keys) -> Iterator[str]:
    """Signs the first visitor in."""
    yield keys.new_code(seconds=CODE_SECONDS)
