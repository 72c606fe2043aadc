"""GpuMonitorCallback for Lightning.

from andon.callbacks.lightning import GpuMonitorCallback
trainer = Trainer(callbacks=[GpuMonitorCallback(thermal_threshold=80, action="pause")])
"""

import math
import os
from functools import partial
from typing import Any

from andon.callbacks.rules.steps import size_of
from andon.callbacks.training import TrainingMonitor, missing

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError:
        raise missing("Lightning", "lightning") from None

MONITORING = ("WandbLogger",)  # loggers whose tracker has a system monitor


class GpuMonitorCallback(TrainingMonitor, Callback):
    """Records each fit. Of several ranks, local rank 0 samples; they pause and stop together, at
    logging steps."""

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        ranks, variables = trainer.world_size, {}
        if ranks > 1 and "RANK" not in os.environ:  # as in processes that Lightning starts
            places = {
                "RANK": trainer.global_rank,
                "WORLD_SIZE": ranks,
                "LOCAL_RANK": trainer.local_rank,
                "LOCAL_WORLD_SIZE": trainer.num_devices,
                "TORCHELASTIC_RUN_ID": f"lightning-{os.environ.get('MASTER_PORT', '')}",
            }
            variables = {name: str(value) for name, value in places.items()}
        self._trainer, self._logged_at = trainer, None
        self.fit_begins(None, variables, ranks)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        total = trainer.estimated_stepping_batches
        self._total = total if math.isfinite(total) and total > 0 else None

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._announce(trainer)
        self._trainer = None
        self.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._trainer = None
        self.end(exception)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._epoch, self._each = trainer.current_epoch, max(1, trainer.accumulate_grad_batches)
        self._every = trainer.log_every_n_steps
        self._batches = trainer.global_step * self._each
        self.note("epoch", number=self._epoch)
        self.resumed()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self.step_begins((self._epoch, batch_idx))
        if self._logged_at is not None:  # after the framework has logged: nothing is waited for
            step, self._logged_at = self._logged_at, None
            self.logged(step, trainer.logged_metrics)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.step_ends((self._epoch, batch_idx), *size_of(batch))
        self._batches += 1  # the trainer's own count of steps takes longer than all of this
        step, left = divmod(self._batches, self._each)
        logs = not left and bool(self._every) and step % self._every == 0
        if logs:
            self._logged_at = step
            self._announce(trainer)
            for logger in trainer.loggers:
                values = self.values(monitored=type(logger).__name__ in MONITORING)
                if values:
                    self._safely(partial(logger.log_metrics, values, step=max(0, step - 1)))
        if self.hold(logs):
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.loggers:  # without one nothing was logged at the steps
            self.logged(trainer.global_step, trainer.callback_metrics)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self._recording(trainer):
            self.interrupted("validation", step=trainer.global_step)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._recording(trainer):
            self.logged(trainer.global_step, trainer.callback_metrics)
            self.resumed()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        if self._recording(trainer):
            self.interrupted("checkpoint", step=trainer.global_step)

    def agree(self, pausing: bool, stopped: bool) -> tuple[bool, bool]:
        decide = self._trainer.strategy.reduce_boolean_decision
        return decide(pausing, all=False), decide(stopped, all=False)

    def barrier(self) -> None:
        self._trainer.strategy.barrier("andon")

    _trainer: Any = None
    _epoch = _batches = _every = 0
    _each = 1
    _logged_at: int | None = None

    def _recording(self, trainer: Any) -> bool:
        """Whether a fit is recorded: `validate` alone and the sanity check are not."""
        return self._trainer is trainer and not trainer.sanity_checking

    def _announce(self, trainer: Any) -> None:
        if values := self.config_values():
            for logger in trainer.loggers:
                self._safely(partial(logger.log_hyperparams, values))
