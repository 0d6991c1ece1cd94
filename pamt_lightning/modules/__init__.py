"""Lightning glue: how each method trains, stops, predicts and is saved."""

from pamt_lightning.modules.base import NodeClassificationModule
from pamt_lightning.modules.label_propagation import LabelPropagationModule
from pamt_lightning.modules.pamt import PAMTModule
from pamt_lightning.modules.pamt_plus import PAMTPlusModule
from pamt_lightning.modules.propagate_then_train import PTAModule, PTDModule, PTSModule
from pamt_lightning.modules.supervised import (
    APPNPModule,
    GATModule,
    GCNModule,
    MLPModule,
    RobustGCNModule,
    SGCModule,
)

__all__ = [
    "APPNPModule",
    "GATModule",
    "GCNModule",
    "LabelPropagationModule",
    "MLPModule",
    "NodeClassificationModule",
    "PAMTModule",
    "PAMTPlusModule",
    "PTAModule",
    "PTDModule",
    "PTSModule",
    "RobustGCNModule",
    "SGCModule",
]
