"""SM and tensor activity (GPM): expensive, and so read only while someone is watching."""

import contextlib
import math
from typing import Any

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.nvml import Handle
from andon.drivers.nvidia.trouble import NOT_SUPPORTED, survivable, trouble
from andon.model.device import UNWATCHED

FIRST_READING = "needs two readings: available from the next one on"
NO_NUMBER = "the driver reported no number"


class Activity:
    """SM and tensor activity between two readings; only while someone is watching."""

    def __init__(self) -> None:
        self.values: tuple[float, float] | None = None
        self.reason = UNWATCHED
        self._supported: bool | None = None
        self._earlier: Any = None

    def read(self, handle: Handle, watched: bool) -> None:
        self.values = None
        if not watched or self._supported is False:
            self.close()
            self.reason = UNWATCHED if self._supported is not False else self.reason
            return
        try:
            self._read(handle)
        except nvml.Error as error:
            self._supported, self.reason = False, survivable(error).reason

    def close(self) -> None:
        if self._earlier is not None:
            with contextlib.suppress(nvml.Error):
                nvml.activity_free(self._earlier)
            self._earlier = None

    def _read(self, handle: Handle) -> None:
        if self._supported is None:
            self._supported = nvml.activity_supported(handle)
            if not self._supported:
                self.reason = trouble(NOT_SUPPORTED).reason
                return
        later = nvml.activity_sample(handle)
        earlier, self._earlier = self._earlier, later
        if earlier is None:
            self.reason = FIRST_READING
            return
        try:
            values = nvml.activity_between(earlier, later)
        finally:
            nvml.activity_free(earlier)
        if all(map(math.isfinite, values)):
            self.values = values
        else:
            self.reason = NO_NUMBER
