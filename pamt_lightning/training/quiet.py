"""Hides what Lightning prints for developers of training code."""

from __future__ import annotations

import logging
import warnings


def silence_lightning() -> None:
    """Show only those warnings of Lightning that concern the methods here."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=r".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    # Every process holds all predictions, so its metrics are those of the whole graph.
    warnings.filterwarnings("ignore", message=r".*recommended to use `self\.log\(.*sync_dist")
