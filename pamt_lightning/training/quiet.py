"""How `pamt` sets up Lightning: lean and quiet, with errors of its own."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lightning_fabric.utilities.exceptions import MisconfigurationException

from pamt_lightning.errors import InputError

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
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    # Every process knows all predictions, so its figures are those of the whole.
    warnings.filterwarnings("ignore", message=r".*recommended to use `self\.log\(.*sync_dist")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Lightning's word for a wrong option is an error of the input."""
    try:
        yield
    except MisconfigurationException as error:
        raise InputError(str(error)) from None
