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
    from pamt_lightning.modules.pamt import PAMTModule

_HOME = {
    "Graph": "pamt_lightning.graph",
    "GraphDataModule": "pamt_lightning.data.datamodule",
    "PAMTModule": "pamt_lightning.modules.pamt",
}

__all__ = ["Graph", "GraphDataModule", "PAMTModule", "__version__"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
