"""Label the nodes of an attributed network when few labels are known and the edges lie.

The public names are imported on first use, so that ``import pamt_lightning`` costs nothing and the
commands that need no torch answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pamt_lightning.version import __version__

if TYPE_CHECKING:
    from pamt_lightning.data.datamodule import GraphDataModule
    from pamt_lightning.graph import Graph
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

_HOME = {
    "Graph": "pamt_lightning.graph",
    "GraphDataModule": "pamt_lightning.data.datamodule",
    "LabelPropagationModule": "pamt_lightning.methods.label_propagation",
    "PAMTModule": "pamt_lightning.methods.pamt",
    "PAMTPlusModule": "pamt_lightning.methods.pamt_plus",
    "PTAModule": "pamt_lightning.methods.propagate_then_train",
    "PTDModule": "pamt_lightning.methods.propagate_then_train",
    "PTSModule": "pamt_lightning.methods.propagate_then_train",
    "APPNPModule": "pamt_lightning.methods.supervised",
    "GATModule": "pamt_lightning.methods.supervised",
    "GCNModule": "pamt_lightning.methods.supervised",
    "MLPModule": "pamt_lightning.methods.supervised",
    "RobustGCNModule": "pamt_lightning.methods.supervised",
    "SGCModule": "pamt_lightning.methods.supervised",
}

__all__ = [
    "APPNPModule",
    "GATModule",
    "GCNModule",
    "Graph",
    "GraphDataModule",
    "LabelPropagationModule",
    "MLPModule",
    "PAMTModule",
    "PAMTPlusModule",
    "PTAModule",
    "PTDModule",
    "PTSModule",
    "RobustGCNModule",
    "SGCModule",
    "__version__",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
