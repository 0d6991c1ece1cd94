"""Classify the nodes of an attributed graph when few labels are known and many edges unreliable.

A graph in memory, classified in one line:

>>> from pamt_lightning import Graph, classify
>>> graph = Graph.from_networkx(g, label="kind")  # doctest: +SKIP
>>> classify(graph)  # a table with a class for each node  # doctest: +SKIP

With the interface of scikit-learn:

>>> from pamt_lightning import PAMTClassifier
>>> clf = PAMTClassifier("PAMT_plus").fit(graph)  # doctest: +SKIP
>>> clf.predict(), clf.accuracy_interval_  # doctest: +SKIP

A run with all options of the command line:

>>> from pamt_lightning import RunConfig, run
>>> run(RunConfig.create("PAMT", dataset="cora_ml")).test_acc  # doctest: +SKIP

Public names:

- data: ``Graph`` (``from_edges``, ``from_pandas``, ``from_networkx``, ``from_scipy``,
  ``from_pyg``), ``GraphDataModule``
- classify: ``PAMTClassifier``, ``classify``, ``RunConfig``, ``run``, ``RunResult``
- methods, as modules of Lightning: ``PAMTModule``, ``PAMTPlusModule`` and those of the baselines,
  such as ``GCNModule``; ``dir(pamt_lightning)`` lists all
- callbacks: ``BestStopping``, ``EpochBar``
- errors in the input: ``InputError``

They are imported on first use, so that ``import pamt_lightning`` takes no time. There is no
``__all__``, with which ``help(pamt_lightning)`` would print all members of all Lightning modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pamt_lightning.version import __version__ as __version__

if TYPE_CHECKING:
    from pamt_lightning.data.datamodule import GraphDataModule as GraphDataModule
    from pamt_lightning.errors import InputError as InputError
    from pamt_lightning.estimator import PAMTClassifier as PAMTClassifier
    from pamt_lightning.estimator import classify as classify
    from pamt_lightning.graph import Graph as Graph
    from pamt_lightning.methods.label_propagation import (
        LabelPropagationModule as LabelPropagationModule,
    )
    from pamt_lightning.methods.pamt import PAMTModule as PAMTModule
    from pamt_lightning.methods.pamt_plus import PAMTPlusModule as PAMTPlusModule
    from pamt_lightning.methods.propagate_then_train import PTAModule as PTAModule
    from pamt_lightning.methods.propagate_then_train import PTDModule as PTDModule
    from pamt_lightning.methods.propagate_then_train import PTSModule as PTSModule
    from pamt_lightning.methods.supervised import APPNPModule as APPNPModule
    from pamt_lightning.methods.supervised import GATModule as GATModule
    from pamt_lightning.methods.supervised import GCNModule as GCNModule
    from pamt_lightning.methods.supervised import MLPModule as MLPModule
    from pamt_lightning.methods.supervised import RobustGCNModule as RobustGCNModule
    from pamt_lightning.methods.supervised import SGCModule as SGCModule
    from pamt_lightning.training.config import RunConfig as RunConfig
    from pamt_lightning.training.progress import EpochBar as EpochBar
    from pamt_lightning.training.run import RunResult as RunResult
    from pamt_lightning.training.run import run as run
    from pamt_lightning.training.stopping import BestStopping as BestStopping

_NAMES = {
    "data.datamodule": "GraphDataModule",
    "errors": "InputError",
    "estimator": "PAMTClassifier classify",
    "graph": "Graph",
    "methods.label_propagation": "LabelPropagationModule",
    "methods.pamt": "PAMTModule",
    "methods.pamt_plus": "PAMTPlusModule",
    "methods.propagate_then_train": "PTAModule PTDModule PTSModule",
    "methods.supervised": "APPNPModule GATModule GCNModule MLPModule RobustGCNModule SGCModule",
    "training.config": "RunConfig",
    "training.progress": "EpochBar",
    "training.run": "RunResult run",
    "training.stopping": "BestStopping",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])
