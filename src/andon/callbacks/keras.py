"""GpuMonitorCallback for Keras.

from andon.callbacks.keras import GpuMonitorCallback
model.fit(x, y, callbacks=[GpuMonitorCallback(thermal_threshold=80), ...])
"""

import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from andon.callbacks.training import TrainingMonitor, has_system_monitor, missing

try:
    from keras.callbacks import Callback
except ImportError:
    raise missing("Keras", "keras") from None

log = logging.getLogger("andon")
SAVES = "_should_save_model"


class GpuMonitorCallback(TrainingMonitor, Callback):
    """Records each `fit`. Trackers after it in the list get its values with each epoch's. It
    neither pauses nor stops a fit of several processes, since each would do so on its own."""

    async_safe = True  # otherwise Keras would wait for the device at the end of each step
    _epoch = _batch = _last_batch = 0
    _last: int | None = None  # the number of an epoch's last step
    _checkpoints: tuple[Any, ...] = ()

    def __init__(self, *args: Any, **keywords: Any) -> None:
        Callback.__init__(self)
        super().__init__(*args, **keywords)

    def on_train_begin(self, logs: Any = None) -> None:
        steps, epochs = (self.params or {}).get("steps"), (self.params or {}).get("epochs")
        ranks = _processes()
        if ranks > 1:
            log.warning("the loop is neither paused nor stopped: Keras has no barrier for ranks")
        self._read_fit(steps)
        self.fit_begins(steps * epochs if steps and epochs else None, None, ranks)

    def _read_fit(self, steps: int | None) -> None:
        """Takes the batch's size and the other callbacks from the frame of `fit`: Keras gives its
        callbacks neither."""
        frame = sys._getframe(2)
        while frame.f_back is not None and "epoch_iterator" not in frame.f_locals:
            frame = frame.f_back
        adapter = getattr(frame.f_locals.get("epoch_iterator"), "data_adapter", None)
        self._batch = _size(adapter, "batch_size")
        self._last_batch = _size(adapter, "partial_batch_size") or self._batch
        self._last = None if steps is None else steps - 1
        others = getattr(frame.f_locals.get("callbacks"), "callbacks", ())
        self._checkpoints = tuple(one for one in others if hasattr(one, SAVES))
        for one in self._checkpoints:
            setattr(one, SAVES, partial(self._saves, getattr(one, SAVES)))

    def _saves(self, decide: Callable[..., bool], *args: Any) -> bool:
        """Notes an interruption whenever a ModelCheckpoint decides to save."""
        saves = decide(*args)
        if saves:
            self.interrupted("checkpoint", step=self._clock.steps)
        return saves

    def end(self, error: BaseException | None = None) -> None:
        for one in self._checkpoints:
            vars(one).pop(SAVES, None)
        self._checkpoints = ()
        super().end(error)

    def on_train_end(self, logs: Any = None) -> None:
        self.send_config()
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
        samples = self._last_batch if batch == self._last else self._batch
        self.step_ends((self._epoch, batch), samples)
        if self.stopped and self._ranks == 1:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is not None:
            self.logged(self._clock.steps, logs)
            self.send_config()
            logs.update(self.values(logs, has_system_monitor()))

    def on_test_begin(self, logs: Any = None) -> None:
        if self._pulse is not None:
            self.interrupted("validation", step=self._clock.steps)

    def on_test_end(self, logs: Any = None) -> None:
        if self._pulse is not None:
            self.resumed()


def _size(adapter: Any, name: str) -> int:
    """Returns the number of samples in a batch; 0 if it is unknown."""
    try:
        return int(getattr(adapter, name) or 0)
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return 0


def _processes() -> int:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())
