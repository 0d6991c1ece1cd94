"""One progress bar over all epochs."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar
from tqdm import tqdm


def in_notebook() -> bool:
    """Whether this program runs in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def is_watched() -> bool:
    """Whether somebody sees a progress bar: in a terminal or in a notebook."""
    return sys.stderr.isatty() or in_notebook()


def progress_bar(*, enabled: bool = True, **options: Any) -> tqdm[Any]:
    """A progress bar on standard error, or a widget in a notebook; nothing if nobody sees it."""
    bar: type[tqdm[Any]] = tqdm
    if in_notebook() and find_spec("ipywidgets"):  # without it tqdm.auto warns
        from tqdm.auto import tqdm as bar
    return bar(**options, dynamic_ncols=True, disable=not (enabled and is_watched()))


class EpochBar(ProgressBar):
    """Epochs, loss and validation accuracy on one line, in a terminal or a notebook.

    Lightning's own bars are redrawn for every batch, and here a batch is an epoch: they take longer
    than the training of a small graph.

    Args:
        seconds: Minimum time between two updates of the metrics.
    """

    def __init__(self, seconds: float = 0.2) -> None:
        super().__init__()
        self.seconds = seconds
        self._enabled = True
        self._bar: tqdm[Any] | None = None
        self._drawn = 0.0

    def disable(self) -> None:
        """Show nothing (Lightning calls this on all ranks but the first)."""
        self._enabled = False

    def enable(self) -> None:
        """Show the bar again."""
        self._enabled = True

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Open the bar at the first epoch of the run."""
        self._bar = progress_bar(
            enabled=self._enabled,
            total=trainer.max_epochs if (trainer.max_epochs or -1) > 0 else None,
            initial=trainer.current_epoch,
            desc="training",
            unit="epoch",
            mininterval=self.seconds,
        )

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Count the epoch; update the metrics from time to time."""
        if self._bar is None or self._bar.disable:
            return
        if time.monotonic() - self._drawn >= self.seconds:
            self._drawn = time.monotonic()
            shown = {
                "loss": getattr(pl_module, "last_loss", None),
                "val_acc": trainer.callback_metrics.get("val_acc"),
            }
            metrics = {k: f"{float(v):.4f}" for k, v in shown.items() if v is not None}
            self._bar.set_postfix(metrics, refresh=False)
        self._bar.update(1)

    def on_train_end(self, *_: Any) -> None:
        """Close the bar, leaving it on the screen."""
        if self._bar is not None:
            self._bar.close()

    def on_exception(self, *_: Any) -> None:
        """Close the bar."""
        self.on_train_end()
