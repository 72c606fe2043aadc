"""GpuMonitorCallback for the Trainer of Transformers.

from andon.callbacks.transformers import GpuMonitorCallback
trainer = Trainer(model, args, callbacks=[GpuMonitorCallback(thermal_threshold=80)], ...)
"""

import sys
from typing import Any

from andon.callbacks.training import TrainingMonitor, has_system_monitor, missing

try:
    from transformers import TrainerCallback
except ImportError:
    raise missing("Transformers", "transformers[torch]") from None


class GpuMonitorCallback(TrainingMonitor, TrainerCallback):
    """Records each `train`. Of several ranks, local rank 0 samples; they pause and stop together,
    at logging steps."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        # Trackers come before it in the Trainer's list and share one table of values with it: it
        # moves to the front, so that they get its values. The list is known to the caller alone.
        handler = sys._getframe(1).f_locals.get("self")
        callbacks = getattr(handler, "callbacks", None)
        if isinstance(callbacks, list) and self in callbacks:
            callbacks.remove(self)
            callbacks.insert(0, self)
        self._tokens, self._first = state.num_input_tokens_seen, True
        self.fit_begins(state.max_steps if state.max_steps > 0 else None, None, args.world_size)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.send_config()
        self.end()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.note("epoch", number=int(state.epoch or 0))
        self.resumed()

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.step_begins(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        seen, before = state.num_input_tokens_seen, self._tokens
        self._tokens = seen
        samples = args.train_batch_size * args.gradient_accumulation_steps
        self.step_ends(state.global_step - 1, samples, max(0, int(seen) - int(before)))
        every = max(1, int(args.logging_steps)) if args.logging_steps >= 1 else 1
        if self.hold(state.global_step % every == 0):
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if logs is None or self._run.id is None or self._run.ended is not None:
            return
        self.logged(state.global_step, logs)
        self.send_config()
        logs.update(self.values(logs, has_system_monitor()))

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._pulse is not None:
            self.note("validation", step=state.global_step)
            self.resumed()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._pulse is not None:
            self.waits_no_longer()

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.interrupted("checkpoint", step=state.global_step)

    def agree(self, pausing: bool, stopped: bool) -> tuple[bool, bool]:
        from accelerate.utils import gather_object

        wanted = gather_object([(pausing, stopped)])
        return any(one[0] for one in wanted), any(one[1] for one in wanted)

    def barrier(self) -> None:
        from accelerate import PartialState

        PartialState().wait_for_everyone()

    _tokens: Any = 0
