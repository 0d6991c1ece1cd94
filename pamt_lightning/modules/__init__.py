"""Lightning glue: how each method trains, stops, predicts and is saved."""

from pamt_lightning.modules.base import NodeClassificationModule
from pamt_lightning.modules.pamt import PAMTModule

__all__ = ["NodeClassificationModule", "PAMTModule"]
