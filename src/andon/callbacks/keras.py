"""GpuMonitorCallback for Keras.

from andon.callbacks.keras import GpuMonitorCallback
model.fit(x, y, callbacks=[GpuMonitorCallback(thermal_threshold=80), ...])
"""

import logging
import sys
from typing import Any

from andon.callbacks.training import TrainingMonitor, has_system_monitor, missing

try:
    from keras.callbacks import Callback
except ImportError:
    raise missing("Keras", "keras") from None

log = logging.getLogger("andon")


class GpuMonitorCallback(TrainingMonitor, Callback):
    """Records each `fit`. The trackers that come after it in the list get its values with those
    of each epoch. Several processes pause and stop each for itself, and so it does neither."""

    async_safe = True  # otherwise Keras would wait for the device at the end of each step
    _epoch = 0

    def __init__(self, *args: Any, **keywords: Any) -> None:
        Callback.__init__(self)
        super().__init__(*args, **keywords)

    def on_train_begin(self, logs: Any = None) -> None:
        steps, epochs = (self.params or {}).get("steps"), (self.params or {}).get("epochs")
        ranks = _processes()
        if ranks > 1:
            log.warning("the loop is neither paused nor stopped: Keras has no barrier for ranks")
        self.fit_begins(steps * epochs if steps and epochs else None, None, ranks)

    def on_train_end(self, logs: Any = None) -> None:
        self.tell_config()
        self.end()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        self.note("epoch", number=epoch)
        self.resumed()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.step_begins((self._epoch, batch))
        if self.hold():
            self.model.stop_training = True

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.step_ends((self._epoch, batch))
        if self.stopped and self._ranks == 1:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is not None:
            self.logged(self._clock.steps, logs)
            self.tell_config()
            logs.update(self.values(logs, has_system_monitor()))

    def on_test_begin(self, logs: Any = None) -> None:
        if self._pulse is not None:
            self.interrupted("validation", step=self._clock.steps)

    def on_test_end(self, logs: Any = None) -> None:
        if self._pulse is not None:
            self.resumed()


def _processes() -> int:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())
