"""One device as its conditions see it in one sample."""

from andon.explain.conditions.observation import HeldDevices
from andon.explain.conditions.track import Reasons, Track
from andon.model.device import DeviceStatus, Sample
from andon.model.thresholds import Thresholds


class DeviceView:
    """A device that answered, its thresholds and recent past; one per device and sample."""

    __slots__ = ("device", "divided", "figures", "held", "reasons", "sample", "status", "track")

    def __init__(
        self,
        status: DeviceStatus,
        sample: Sample,
        figures: Thresholds,
        track: Track,
        reasons: Reasons | None,
        divided: bool = False,
        held: HeldDevices | None = None,
    ) -> None:
        self.status = status
        self.device = status.device
        self.sample = sample
        self.figures = figures
        self.track = track
        self.reasons = reasons  # throttle reasons now or a moment ago
        self.divided = divided  # a board whose memory belongs to its instances
        self.held = held
