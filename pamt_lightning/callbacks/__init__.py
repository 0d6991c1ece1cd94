"""What watches a training: stopping and checkpoints, progress bar and notes, TensorBoard."""

from pamt_lightning.callbacks.estimate import LongRunNote
from pamt_lightning.callbacks.progress import EpochBar
from pamt_lightning.callbacks.stopping import BestStopping
from pamt_lightning.callbacks.tensorboard import TensorBoardMonitor

__all__ = ["BestStopping", "EpochBar", "LongRunNote", "TensorBoardMonitor"]
