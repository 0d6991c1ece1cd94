"""When to stop, which state to keep, and which checkpoints to write."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint
from torch import Tensor

from pamt_lightning.errors import InputError

BEST, LAST = "best.ckpt", "last.ckpt"
_STATE = (
    *("wait", "top_acc", "low_loss", "best_acc", "best_loss"),
    *("best_epoch", "best_state", "seconds", "is_finished"),
)


class BestStopping(Checkpoint):
    """Stop when neither accuracy nor loss has improved for long; keep the best state.

    The published protocol: patience is reset whenever ``val_acc`` *or* ``val_loss`` reaches its
    best value so far, an accuracy of 1 once only; the best state is that with the highest
    accuracy, then with the lowest loss.
    A method may ask for a number of epochs before (`NodeClassificationModule.min_epochs`).
    When the training ends, the module and ``best.ckpt`` hold that state.

    ``last.ckpt`` holds all that a resumed run needs, the best state included, so the two files do
    not depend on each other. Both are written to a temporary file that is then renamed: a crash at
    any moment leaves a complete file.

    Args:
        patience: Validations (that is, epochs) without an improvement of either metric before the
            training stops.
        save_seconds: Time between two saves, and so the most work that a crash can lose; 0 saves
            every epoch.
        dirpath: Folder of the two files; the logger's folder unless given.
    """

    def __init__(
        self, patience: int = 100, save_seconds: float = 10.0, dirpath: str | None = None
    ) -> None:
        super().__init__()
        if patience < 1:
            raise InputError(f"`patience` must be 1 or more, got {patience}.")
        if save_seconds < 0:
            raise InputError(f"`save_seconds` must be 0 or more, got {save_seconds}.")
        self.patience = patience
        self.save_seconds = save_seconds
        self.dirpath = dirpath
        self._reset()

    def _reset(self) -> None:
        self.wait = 0
        self.top_acc, self.low_loss = float("-inf"), float("inf")
        self.best_acc, self.best_loss = float("-inf"), float("inf")
        self.best_epoch = 0
        self.best_state: dict[str, Tensor] = {}
        self.seconds = 0.0
        self.is_finished = False
        self._started = self._written = time.monotonic()
        self._writing_best = False
        self._validated = False

    def update(self, acc: float, loss: float) -> bool:
        """Record a validation; return whether its state is the best so far."""
        # A small validation set is soon all right; that would reset the patience without end.
        reset = acc > self.top_acc or self.top_acc == acc < 1.0 or loss <= self.low_loss
        self.wait = 0 if reset else self.wait + 1
        self.top_acc, self.low_loss = max(self.top_acc, acc), min(self.low_loss, loss)
        if (acc, -loss) > (self.best_acc, -self.best_loss):
            self.best_acc, self.best_loss = acc, loss
            return True
        return False

    @property
    def out_of_patience(self) -> bool:
        """Whether training should stop."""
        return self.wait >= self.patience

    # Hooks -------------------------------------------------------------------------------------

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        """Reset everything, also the clock: its time includes pretraining."""
        if stage == "fit":
            self._reset()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Note that there is a new validation: patience counts validations."""
        self._validated = not trainer.sanity_checking

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Stop at once if the resumed run had stopped already."""
        self.is_finished = False
        if self.out_of_patience and trainer.current_epoch >= pl_module.min_epochs:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Judge the newest validation, keep its state if it is the best, save if it is time."""
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        if self._validated:
            self._judge(trainer, pl_module)
        is_time = time.monotonic() - self._written >= self.save_seconds
        # Clocks differ, and either all processes must save or none.
        if self.best_state and trainer.strategy.broadcast(is_time):  # type: ignore[arg-type]
            self.save(trainer)

    def _judge(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._validated = False
        acc, loss = (float(trainer.callback_metrics[name]) for name in ("val_acc", "val_loss"))
        if not math.isfinite(loss):
            raise InputError(
                f"training diverged: `val_loss` is {loss} in epoch {trainer.current_epoch + 1}. "
                "Lower the learning rate."
            )
        if self.update(acc, loss):
            self.best_epoch = trainer.current_epoch + 1
            self.best_state = pl_module.kept_state()
        if self.out_of_patience and trainer.current_epoch + 1 >= pl_module.min_epochs:
            trainer.should_stop = True

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Let the module finish its best state, write both files and leave it with that state."""
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        if not self.best_state:
            raise InputError(
                "nothing was trained and validated: there must be at least one epoch with a "
                "validation (see trainer.max_epochs, trainer.limit_val_batches)."
            )
        self._finish(trainer, pl_module)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Finish a resumed run that had been trained but not finished: Lightning skips the rest."""
        if self.best_state and not self.is_finished:
            self._finish(trainer, pl_module)

    def _finish(self, trainer: pl.Trainer, pl_module: Any) -> None:
        last = {name: value.detach().clone() for name, value in pl_module.state_dict().items()}
        pl_module.load_state_dict(self.best_state)
        pl_module.finish_training()
        self.best_state = pl_module.kept_state()
        self.is_finished = True
        pl_module.load_state_dict(last)  # a training of more epochs continues from it
        self.save(trainer)
        pl_module.load_state_dict(self.best_state)

    def save(self, trainer: pl.Trainer) -> None:
        """Write ``best.ckpt`` and ``last.ckpt``."""
        now = time.monotonic()
        self.seconds += now - self._started
        self._started = self._written = now
        folder = self.dirpath or (trainer.log_dir if trainer.loggers else None)
        if not folder:
            return
        for name in (BEST, LAST):
            self._writing_best = name == BEST
            part = Path(folder) / f".{name}.part"
            trainer.save_checkpoint(part)
            if trainer.is_global_zero:
                with open(part, "rb+") as file:
                    os.fsync(file.fileno())
                os.replace(part, part.with_name(name))

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """For ``best.ckpt``, save the best state, without what only a resumed run needs."""
        if not self._writing_best:
            return
        checkpoint["state_dict"] = self.best_state
        checkpoint["epoch"] = self.best_epoch - 1
        for key in ("optimizer_states", "lr_schedulers", "loops", "callbacks"):
            checkpoint.pop(key, None)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next epochs depend on."""
        return {name: getattr(self, name) for name in _STATE}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the checkpoint, with the patience of the new run."""
        for name, value in state_dict.items():
            setattr(self, name, value)
