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

_HOME = {
    "Graph": "pamt_lightning.graph",
    "GraphDataModule": "pamt_lightning.data.datamodule",
    "LabelPropagationModule": "pamt_lightning.modules.label_propagation",
    "PAMTModule": "pamt_lightning.modules.pamt",
    "PAMTPlusModule": "pamt_lightning.modules.pamt_plus",
    "PTAModule": "pamt_lightning.modules.propagate_then_train",
    "PTDModule": "pamt_lightning.modules.propagate_then_train",
    "PTSModule": "pamt_lightning.modules.propagate_then_train",
    "APPNPModule": "pamt_lightning.modules.supervised",
    "GATModule": "pamt_lightning.modules.supervised",
    "GCNModule": "pamt_lightning.modules.supervised",
    "MLPModule": "pamt_lightning.modules.supervised",
    "RobustGCNModule": "pamt_lightning.modules.supervised",
    "SGCModule": "pamt_lightning.modules.supervised",
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
