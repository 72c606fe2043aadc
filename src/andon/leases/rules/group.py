"""What a group of devices is worth together: their own ranks, and how closely they are linked."""

from collections.abc import Callable, Sequence

from andon.leases.rules.capacity import DeviceCapacity
from andon.model.links import all_links

Rank = Callable[[DeviceCapacity], tuple[float, ...]]
SCORE = 2
"""The place of the score in a rank; what comes before it outweighs any link."""


class GroupValue:
    """Compares groups of devices; without a weight, or if all links are alike, by ranks alone."""

    def __init__(
        self, devices: Sequence[DeviceCapacity], order: Rank, link_weight: float = 0.0
    ) -> None:
        """`devices` are all candidates for groups."""
        self._order, self._weight = order, link_weight
        self._closeness: dict[tuple[str, str], float] = {}
        if link_weight > 0 and len(devices) > 1:
            links = all_links([one.status.device for one in devices])
            found = {pair: link.closeness for pair, link in links.items()}
            if len(set(found.values())) > 1:
                self._closeness = found

    def of(self, group: Sequence[DeviceCapacity]) -> tuple[float, ...]:
        """Returns a sort key, the smallest is best. With links, the mean of the scores less the
        weighted mean closeness."""
        total = tuple(sum(parts) for parts in zip(*map(self._order, group), strict=True))
        if not self._closeness or len(group) < 2:
            return total
        pairs = [
            self._closeness[one.uuid, other.uuid]
            for place, one in enumerate(group)
            for other in group[place + 1 :]
        ]
        score = total[SCORE] / len(group) - self._weight * sum(pairs) / len(pairs)
        return (*total[:SCORE], score, *total[SCORE + 1 :])

    def best_of(self, ranked: Sequence[DeviceCapacity], count: int) -> tuple[DeviceCapacity, ...]:
        """Returns the best group of this size; grown from each device in turn, because trying
        all groups takes too long with many devices."""
        if not self._closeness or count < 2 or len(ranked) <= count:
            return tuple(ranked[:count])
        groups = [self._grown(one, ranked, count) for one in ranked]
        best = {one.uuid for one in min(groups, key=self.of)}
        return tuple(one for one in ranked if one.uuid in best)

    def _grown(
        self, first: DeviceCapacity, ranked: Sequence[DeviceCapacity], count: int
    ) -> list[DeviceCapacity]:
        group, left = [first], [one for one in ranked if one is not first]
        near = {one.uuid: 0.0 for one in left}
        while len(group) < count:
            for one in left:
                near[one.uuid] += self._closeness[group[-1].uuid, one.uuid]
            steps = [self._step(one, near[one.uuid] / len(group)) for one in left]
            group.append(left.pop(steps.index(min(steps))))
        return group

    def _step(self, one: DeviceCapacity, closeness: float) -> tuple[float, ...]:
        """Returns the change of the sort key for one more device; links are weighted as in `of`:
        each of n devices counts 1/n, each of their pairs 2/(n(n - 1))."""
        rank = self._order(one)
        return (*rank[:SCORE], rank[SCORE] - 2 * self._weight * closeness, *rank[SCORE + 1 :])
