"""Lightning glue: how each method trains, stops, predicts and is saved."""

from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.methods.label_propagation import LabelPropagationModule
from pamt_lightning.methods.pamt import PAMTModule
from pamt_lightning.methods.pamt_plus import PAMTPlusModule
from pamt_lightning.methods.propagate_then_train import PTAModule, PTDModule, PTSModule
from pamt_lightning.methods.supervised import (
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
