"""What watches a training: stopping and checkpoints, the progress bar, TensorBoard."""

from pamt_lightning.callbacks.progress import EpochBar
from pamt_lightning.callbacks.stopping import BestStopping
from pamt_lightning.callbacks.tensorboard import TensorBoardMonitor

__all__ = ["BestStopping", "EpochBar", "TensorBoardMonitor"]
