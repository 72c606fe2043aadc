"""Maintains any store: packs, rolls up, deletes and compacts what the plan says is due."""

from andon.history.rules.tiers import Maintenance, Retention, plan
from andon.ports import Store

MOST_PACKED = 6  # windows per step, so that no one waits long for the store
MOST_ROLLED = 1


class Maintainer:
    """One store and how long it keeps what."""

    def __init__(self, store: Store, retention: Retention) -> None:
        self._store, self._retention = store, retention

    def step(self, at: float) -> Maintenance:
        """Do some of the work that is due. Call again until it is idle."""
        store, done = self._store, Maintenance()
        due = plan(at, store.contents(), self._retention)
        for begin in due.pack[:MOST_PACKED]:
            done = done.plus(store.pack(begin))
        for tier in due.shorten:
            done = done.plus(store.shorten(tier, int(at * 1000)))
        for window in due.roll[:MOST_ROLLED]:
            done = done.plus(store.roll(window))
        for tier, before in due.delete:
            done = done.plus(store.delete(tier, before))
        done = done.plus(store.forget(due.forget))
        return done.plus(Maintenance(freed_bytes=store.compact()))

    def finish(self, at: float) -> Maintenance:
        """Do everything that is due, and return all free space to the system."""
        done = Maintenance()
        while not (step := self.step(at)).idle:
            done = done.plus(step)
        return done.plus(Maintenance(freed_bytes=self._store.compact(fully=True)))
