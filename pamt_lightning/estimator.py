"""PAMTClassifier: every method of the package with the interface of scikit-learn."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from pamt_lightning.data.own.archive import NpzArchive
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.files import write_whole
from pamt_lightning.graph import Graph
from pamt_lightning.interop.arrays import arrays_from_matrix
from pamt_lightning.interop.edges import id_array, positions_of
from pamt_lightning.interop.features import as_matrix
from pamt_lightning.interop.labels import encode_labels
from pamt_lightning.version import __version__

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]

_FORMAT = "pamt-classifier"
_NESTED = ("model", "trainer")  # parameters that are dictionaries: model__alpha


class NotFittedError(ValueError, AttributeError):
    """The classifier is used before it is fitted."""


class PAMTClassifier:
    """Classify the nodes of a graph, with the interface of scikit-learn.

    >>> clf = PAMTClassifier(method="PAMT")
    >>> clf.fit(graph).predict()  # doctest: +SKIP

    Three ways to fit: ``fit(graph)``; ``fit(X, y, adjacency=A)`` with attributes and a matrix of
    edges; and, with the graph in the constructor, ``fit(nodes, y)`` with ids of nodes, so that
    ``cross_val_score(clf, nodes, y)`` and ``GridSearchCV`` split the nodes of one graph. An unknown
    label is -1, ``None``, NaN or an empty text.

    Args:
        method: The name of a method (`pamt methods` lists them) or the path of a class.
        graph: The graph whose nodes ``X`` names in all other calls.
        model: Options of the method, such as ``{"alpha": 0.2}``; `set_params` and ``GridSearchCV``
            know them as ``model__alpha``.
        folds: The labelled nodes are divided into so many parts. For each part a model is trained
            on the others and stopped on it; predictions are the mean of all models.
        scale_features: As in `GraphDataModule`.
        trainer: Options of Lightning's ``Trainer``, such as ``{"max_epochs": 500}``.
        random_state: Seed of initialisation, training and folds; None takes another one each time.
        verbose: Whether to show a progress bar; by default only in a notebook or a terminal.

    Attributes:
        classes_: The classes, sorted, of the type of ``y``, texts after ``fit(graph)``; the columns
            of probabilities.
        graph_: The graph of the training.
        probabilities_: Class probabilities of its nodes, shape ``[nodes, classes]``.
        accuracy_: The estimated accuracy on nodes without a label, from labelled nodes that had no
            part in the model that predicted them.
        accuracy_interval_: The 95 % interval of that accuracy.
        result_: The record of the training, as in ``results.json``.
        n_features_in_: Number of attributes.
    """

    def __init__(
        self,
        method: str = "PAMT_plus",
        *,
        graph: Graph | None = None,
        model: Mapping[str, Any] | None = None,
        folds: int = 5,
        scale_features: str | None = None,
        trainer: Mapping[str, Any] | None = None,
        random_state: int = 0,
        verbose: bool | None = None,
    ) -> None:
        self.method = method
        self.graph = graph
        self.model = model
        self.folds = folds
        self.scale_features = scale_features
        self.trainer = trainer
        self.random_state = random_state
        self.verbose = verbose

    # Parameters --------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor; with ``deep`` also the entries of dictionaries."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        found = {name: getattr(self, name) for name in names}
        if deep:
            for name in _NESTED:
                found |= {f"{name}__{key}": value for key, value in (found[name] or {}).items()}
        return found

    def set_params(self, **params: Any) -> PAMTClassifier:
        """Change arguments of the constructor, or entries of its dictionaries: ``model__alpha``."""
        known = self.get_params(deep=False)
        for name, value in params.items():
            first, nested, key = name.partition("__")
            if first not in known or (nested and first not in _NESTED):
                raise InputError(f"there is no parameter {name!r}. Parameters: {', '.join(known)}.")
            setattr(self, first, {**(getattr(self, first) or {}), key: value} if nested else value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(sparse=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __repr__(self) -> str:
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(type(self).__init__).parameters.items()
        }
        shown = {k: v for k, v in self.get_params(deep=False).items() if v is not defaults[k]}
        text = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        fitted = ""
        if self.__sklearn_is_fitted__() and self.graph_ is not None:
            fitted = f"  # fitted on {self.graph_!r}"
        return f"{type(self).__name__}({text}){fitted}"

    # Training ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, adjacency: Any = None) -> PAMTClassifier:  # noqa: N803
        """Train on the labelled nodes.

        Args:
            X: A `Graph` with its labels; attributes ``[nodes, attributes]``; or, with a graph in
                the constructor, ids of the nodes whose labels are in ``y``.
            y: Labels of the nodes in ``X``.
            adjacency: Weights of edges between the rows of ``X``, see `Graph.from_scipy`; without
                it there are no edges.
        """
        graph, classes = self._training_graph(X, y, adjacency)
        if len(classes) < 2:
            got = "1 class" if len(classes) else "no label"
            raise InputError(f"Training needs labels of at least two classes, got {got}.")

        from pamt_lightning.training.config import RunConfig
        from pamt_lightning.training.folds import run_folds

        seed = _as_seed(self.random_state)
        config = RunConfig.create(
            self.method,
            data={
                "folds": self.folds,
                "split_seed": seed,
                "scale_features": self.scale_features,
            },
            model=self.model,
            trainer={"enable_progress_bar": self._shows_progress, **(self.trainer or {})},
            seed=seed,
        )
        with _random_numbers_kept():
            result = run_folds(config, graph=graph, quiet=not self._shows_progress)
        self.graph_: Graph | None = graph
        self._node_ids: Array = np.asarray(graph.node_ids)
        self.result_ = result.record
        self.classes_ = classes
        self.n_features_in_ = graph.num_features
        models = [each.model for each in result.runs]
        self._fitted = _Fitted(result.runs[0].config.model, models, result.datamodule.state_dict())
        self.probabilities_ = result.probs.numpy()
        return self

    @property
    def accuracy_(self) -> float:
        """The estimated accuracy on nodes without a label."""
        self._check_is_fitted()
        return float(self.result_["estimate"]["accuracy"])

    @property
    def accuracy_interval_(self) -> tuple[float, float]:
        """The 95 % interval of `accuracy_`."""
        self._check_is_fitted()
        low, high = self.result_["estimate"]["interval"]
        return float(low), float(high)

    @property
    def _shows_progress(self) -> bool:
        from pamt_lightning.training.progress import is_watched

        return is_watched() if self.verbose is None else self.verbose

    def _training_graph(self, x: Any, y: Any, adjacency: Any) -> tuple[Graph, Array]:
        """The graph with the labels to learn from, and its classes as the user wrote them."""
        if isinstance(x, Graph):
            if y is not None or adjacency is not None:
                raise InputError("fit(graph) takes labels and edges from the graph: give it alone.")
            return x, np.array(x.class_names)
        if y is None:
            raise InputError(
                "fit(X, y) requires y to be passed, but the target y is None; fit(graph) takes the "
                "labels of the graph."
            )
        numbers, classes, class_names = _encoded(y)
        if self.graph is None:
            arrays = arrays_from_matrix(
                _no_edges(len(numbers)) if adjacency is None else adjacency,
                _attributes(x),
                numbers,
                class_names=class_names,
            )
            return Graph.of_arrays(arrays), classes
        nodes = self._positions(x)
        if len(nodes) != len(numbers):
            raise InputError(f"`y` must have one label per node of X, got {len(numbers)}.")
        known = np.full(self.graph.num_nodes, -1)
        known[nodes] = numbers
        graph = replace(
            self.graph,
            y=torch.from_numpy(known),
            class_names=class_names,
            train_index=None,
            val_index=None,
            test_index=None,
        )
        return graph, classes

    def _positions(self, nodes: Any) -> npt.NDArray[np.int64]:
        """The positions of nodes that are named by their ids."""
        ids = np.asarray(nodes)
        if ids.ndim == 2 and ids.shape[1] == 1:
            ids = ids[:, 0]
        if ids.ndim != 1:
            raise InputError(f"X must hold the ids of nodes, got shape {ids.shape}.")
        known = np.asarray(self.graph.node_ids if self.graph is not None else self._node_ids)
        return positions_of(id_array(ids), known, "Nodes in X")

    # Predictions -------------------------------------------------------------------------------

    def predict_proba(self, X: Any = None, adjacency: Any = None) -> Array:  # noqa: N803
        """Class probabilities, shape ``[nodes, classes]``.

        Args:
            X: A `Graph`; attributes of new nodes; ids of nodes of the graph in the constructor;
                or nothing for the nodes of the training.
            adjacency: Weights of edges between the rows of ``X``, if these are attributes.
        """
        self._check_is_fitted()
        if X is None:
            return self.probabilities_
        if isinstance(X, Graph):
            return self._fitted.predict_on(X)
        if self.graph is not None:
            return self.probabilities_[self._positions(X)]
        x = _attributes(X)
        if x.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {x.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        edges = _no_edges(x.shape[0]) if adjacency is None else adjacency
        return self._fitted.predict_on(Graph.of_arrays(arrays_from_matrix(edges, x)))

    def predict(self, X: Any = None, adjacency: Any = None) -> Array:  # noqa: N803
        """The class of each node; the arguments are those of `predict_proba`."""
        probs = self.predict_proba(X, adjacency)
        found: Array = self.classes_[probs.argmax(axis=1)]
        return found

    def predict_frame(self, graph: Graph | None = None) -> pd.DataFrame:
        """A table with ``node_id``, ``class``, ``probability`` and ``p_CLASS`` for each class."""
        from pamt_lightning.training.results import prediction_frame

        self._check_is_fitted()
        probs = self.predict_proba(graph)
        ids = self._node_ids if graph is None else np.asarray(graph.node_ids)
        return prediction_frame(ids, self.classes_, probs)

    def score(self, X: Any, y: Any, adjacency: Any = None) -> float:  # noqa: N803
        """Accuracy on those nodes whose labels are known."""
        numbers, _, names = _encoded(y)
        true = np.array([*names, ""])[numbers]
        found = _encoded(self.predict(X, adjacency))
        predicted = np.array([*found[2], ""])[found[0]]
        if not (numbers >= 0).any():
            raise InputError("`y` has no label to compare with.")
        return float(np.mean((predicted == true)[numbers >= 0]))

    def _check_is_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _not_fitted_error()(
                f"This {type(self).__name__} instance is not fitted yet: call `fit` first."
            )

    # Files -------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to an ``.npz`` file, without pickle and without the graph.

        Ids that are neither whole numbers nor texts are written as texts.
        """
        self._check_is_fitted()
        fitted, arrays = self._fitted.to_dict()
        ids = self._node_ids
        arrays["node_ids"] = ids if ids.dtype.kind in "iuU" else np.array([*map(str, ids)])
        arrays["probabilities"] = self.probabilities_
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "graph"}
        header = {
            "format": _FORMAT,
            "version": __version__,
            "params": params,
            "classes": self.classes_.tolist(),
            "n_features_in": self.n_features_in_,
            "result": self.result_,
            **fitted,
        }
        try:
            text = json.dumps(header, default=_plain)
        except TypeError as error:
            raise InputError(f"this classifier cannot be saved: {error}.") from None
        content: dict[str, Any] = {**arrays, "header": np.array(text)}
        write_whole(Path(path), lambda file: np.savez_compressed(file, **content), binary=True)

    @classmethod
    def load(cls, path: str | Path, graph: Graph | None = None) -> PAMTClassifier:
        """Read what `save` wrote; ``graph`` becomes the graph of the constructor."""
        if not Path(path).is_file():
            raise CheckpointError(f"there is no file {path}.")
        with closing(NpzArchive(path)) as archive:
            arrays = {name: archive.load(name) for name in archive.keys}
        try:
            header = json.loads(str(arrays.pop("header")))
            if header["format"] != _FORMAT:
                raise KeyError("format")
            found = cls(**header["params"], graph=graph)
            found._fitted = _Fitted.from_dict(header, arrays)
            found.classes_ = np.array(header["classes"])
            found.n_features_in_ = int(header["n_features_in"])
            found.result_ = dict(header["result"])
            found.probabilities_ = arrays["probabilities"]
            found.graph_ = graph
            found._node_ids = arrays.get("node_ids", np.arange(len(found.probabilities_)))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise CheckpointError(
                f"{path} is not a classifier of pamt, or is damaged ({error!r}): use a file that "
                "`PAMTClassifier.save` wrote."
            ) from None
        return found


class _Fitted:
    """Trained modules with what they need to know of their data."""

    def __init__(self, model: Mapping[str, Any], modules: list[Any], data: Mapping[str, Any]):
        self.model, self.modules, self.data = model, modules, data

    def predict_on(self, graph: Graph) -> Array:
        """Class probabilities on a graph, whose attributes are scaled as in the training."""
        from pamt_lightning.data.datamodule import GraphDataModule
        from pamt_lightning.training.run import predict_mean

        data = GraphDataModule(graph=graph)
        data.match_model(self.data)
        data.setup("predict")
        first = self.modules[0]
        if data.graph.num_features != first.num_features:
            raise InputError(
                f"The graph has {data.graph.num_features} attributes; the classifier was trained "
                f"on {first.num_features}."
            )
        return np.asarray(predict_mean(self.modules, data).numpy())

    def to_dict(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values, and arrays."""
        arrays = {
            f"state/{number}/{name}": value.cpu().numpy()
            for number, module in enumerate(self.modules)
            for name, value in module.state_dict().items()
        }
        data = {k: v for k, v in self.data.items() if k != "scaling"}
        scaling = dict(self.data["scaling"])
        for name in ("mean", "std"):
            if scaling.get(name) is not None:
                arrays[f"scaling/{name}"] = np.asarray(scaling.pop(name))
        first = self.modules[0]
        sizes = {name: getattr(first, name) for name in ("num_features", "num_classes")}
        content = {"data": {**data, "scaling": scaling}, "model": dict(self.model)}
        return {**content, "sizes": sizes, "num_models": len(self.modules)}, arrays

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], arrays: Mapping[str, Array]) -> _Fitted:
        """Build the modules; only methods of this package are imported."""
        from pamt_lightning.methods.registry import METHODS
        from pamt_lightning.training.config import import_class

        class_path = str(content["model"]["class_path"])
        if class_path not in {method.class_path for method in METHODS}:
            raise CheckpointError(f"{class_path} is not a method of this package.")
        modules = []
        for number in range(int(content["num_models"])):
            start = f"state/{number}/"
            state = {
                name.removeprefix(start): torch.from_numpy(array)
                for name, array in arrays.items()
                if name.startswith(start)
            }
            module = import_class(class_path)(**content["sizes"], **content["model"]["init_args"])
            module.load_state_dict(state)
            modules.append(module)
        if not modules:
            raise KeyError("num_models")
        data = dict(content["data"])
        data["scaling"] = {
            **data["scaling"],
            **{
                name: torch.from_numpy(arrays[f"scaling/{name}"])
                for name in ("mean", "std")
                if f"scaling/{name}" in arrays
            },
        }
        return cls(content["model"], modules, data)


def classify(graph: Graph, method: str = "PAMT_plus", **options: Any) -> pd.DataFrame:
    """Train a method on the labels of a graph; a table with the class of each node.

    ``options`` are those of `PAMTClassifier`; the table is that of its `predict_frame`.
    """
    return PAMTClassifier(method, **options).fit(graph).predict_frame()


def _not_fitted_error() -> type[Exception]:
    """scikit-learn's own error, if it is installed."""
    try:
        from sklearn.exceptions import NotFittedError as TheirError
    except ImportError:
        return NotFittedError
    found: type[Exception] = TheirError
    return found


def _attributes(x: Any) -> Any:
    """Attributes as a matrix; the messages are those that scikit-learn's checks look for."""
    matrix: Any
    if hasattr(x, "detach"):  # torch
        matrix = as_matrix(x)
    elif sp.issparse(x):
        matrix = x
    else:
        matrix = np.asarray(x)
        if matrix.dtype == object:
            try:
                matrix = matrix.astype(np.float64)
            except ValueError as error:
                raise InputError(f"X must hold numbers: {error}.") from None
    if len(matrix.shape) != 2:
        raise InputError(
            f"Expected 2D array, got {len(matrix.shape)}D array instead: attributes have the shape "
            "[nodes, attributes]. Reshape your data."
        )
    if np.iscomplexobj(matrix):
        raise InputError("Complex data not supported: X must hold real numbers.")
    if 0 in matrix.shape:
        rows, columns = matrix.shape
        what = f"{columns} feature(s)" if columns == 0 else f"{rows} sample(s)"
        raise InputError(
            f"Found array with {what} (shape=({rows}, {columns})) while a minimum of 1 is required."
        )
    return as_matrix(matrix)


def _encoded(y: Any) -> tuple[Array, Array, tuple[str, ...]]:
    """Labels as class numbers, -1 if unknown; the classes as the user wrote them, and as texts."""
    array = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"`y` must hold one label per node, got shape {array.shape}.")
    if array.dtype.kind == "f":
        known = np.nan_to_num(array, posinf=0.5)
        if (known != np.round(known)).any():
            raise InputError("Unknown label type: `y` must hold classes, got continuous numbers.")
    if array.dtype.kind == "U":
        array = np.where(array == "nan", "", array)  # what NumPy makes of a missing text
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: `y` must hold classes.")
    numbers, names = encode_labels(array)
    first = [array[np.flatnonzero(numbers == number)[0]] for number in range(len(names))]
    kinds = {type(each) for each in first}
    if array.dtype.kind == "O" and len(kinds) > 1:
        classes = np.array(names, dtype=object)  # of several types: as texts
    elif array.dtype.kind in "OU":
        classes = np.array([each.strip() if isinstance(each, str) else each for each in first])
    else:
        classes = np.array(first, dtype=array.dtype)
    return numbers, classes, names


def _as_seed(random_state: Any) -> int:
    """A seed from a number, a ``RandomState``, or None for another one each time."""
    if random_state is None:
        random_state = np.random.RandomState()
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(random_state)


@contextmanager
def _random_numbers_kept() -> Iterator[None]:
    """The random numbers of the caller go on as if nothing had been trained."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def _no_edges(num_nodes: int) -> Any:
    return sp.csr_array((num_nodes, num_nodes), dtype=np.float32)


def _plain(value: Any) -> Any:
    """NumPy values as JSON has them."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a plain value")
