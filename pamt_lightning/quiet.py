"""How `pamt` sets up Lightning: lean and quiet."""

from __future__ import annotations

import logging
import warnings
from typing import Any

TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": 2000,
    "devices": 1,
    "num_sanity_val_steps": 0,  # it would cost an inference and say nothing
    "log_every_n_steps": 1,
    "enable_model_summary": False,
}


def silence() -> None:
    """Lightning's notes are for developers of training code; users get ours."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=r".*LeafSpec.*", category=FutureWarning)
