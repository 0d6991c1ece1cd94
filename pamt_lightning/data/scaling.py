"""Scaling of node attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pamt_lightning.errors import CheckpointError, InputError

Features: TypeAlias = sp.csr_array | npt.NDArray[Any]
ScaleName: TypeAlias = Literal["l2", "l1", "standard", "none"]


def scaling_kind(features: Features, kind: ScaleName | None = None) -> ScaleName:
    """The kind of scaling: as chosen, or else ``l2`` for sparse and ``standard`` for dense."""
    if kind == "standard" and sp.issparse(features):
        raise InputError(
            "`scale_features`='standard' would make sparse attributes dense: use l2, l1 or none."
        )
    return kind or ("l2" if sp.issparse(features) else "standard")


@dataclass(frozen=True, eq=False)
class Scaling:
    """How attributes are scaled; a model keeps the scaling of its training data.

    Attributes:
        kind: ``l2`` or ``l1`` (rows divided by that norm), ``standard`` (columns with mean 0 and
            deviation 1) or ``none``.
        mean: Mean of each column, for ``standard``.
        std: Deviation of each column, for ``standard``; 1 where the column is constant.
    """

    kind: ScaleName
    mean: npt.NDArray[np.float64] | None = None
    std: npt.NDArray[np.float64] | None = None

    @classmethod
    def of(cls, features: Features, kind: ScaleName | None = None) -> Scaling:
        """The scaling of these attributes, see `scaling_kind`."""
        kind = scaling_kind(features, kind)
        if kind != "standard":
            return cls(kind)
        dense = np.asarray(features)
        std = dense.std(axis=0, dtype=np.float64)
        return cls(kind, dense.mean(axis=0, dtype=np.float64), np.where(std > 0, std, 1.0))

    def apply(self, features: Features) -> Features:
        """The scaled attributes."""
        if self.kind in ("l1", "l2"):
            return normalize_rows(features, self.kind)
        if self.mean is None or self.std is None:
            return features
        dense = features.toarray() if sp.issparse(features) else features
        return ((dense - self.mean) / self.std).astype(np.float32)

    def reordered(self, order: Sequence[int] | None) -> Scaling:
        """The same scaling for columns in another order."""
        if order is None or self.mean is None or self.std is None:
            return self
        return Scaling(self.kind, self.mean[list(order)], self.std[list(order)])

    def rescale(self, features: Features, by: Scaling, source: str) -> Features:
        """Attributes scaled by this scaling, scaled by another one of its kind instead."""
        if self.kind != by.kind:
            raise InputError(
                f"{source} holds attributes scaled by {self.kind!r}, but {by.kind!r} is needed: "
                f"convert the graph again with --scale_features {by.kind}."
            )
        if self.mean is None or self.std is None or by.mean is None or by.std is None:
            return features
        if np.array_equal(self.mean, by.mean) and np.array_equal(self.std, by.std):
            return features
        return by.apply(features * self.std + self.mean)


def column_order(names: Sequence[str], expected: Sequence[str], source: str) -> list[int] | None:
    """The positions of the columns that a model expects; None if in order or without names."""
    if not names or not expected or tuple(names) == tuple(expected):
        return None
    if set(names) != set(expected):
        odd = sorted(set(expected) ^ set(names))[0]
        which = "is missing" if odd in expected else "is not among them"
        raise CheckpointError(
            f"The model was trained on the columns {', '.join(expected)}; "
            f"in {source} `{odd}` {which}."
        )
    position = {name: number for number, name in enumerate(names)}
    return [position[name] for name in expected]


def normalize_rows(features: Features, kind: ScaleName = "l2") -> Features:
    """Divide each row by its L1 or L2 norm, in float64 (it may overflow float32); zeros stay."""
    power = {"l1": 1.0, "l2": 2.0}[kind]
    if not sp.issparse(features):
        mass = (np.abs(features.astype(np.float64)) ** power).sum(axis=1, keepdims=True)
        mass **= 1 / power
        return (features / np.where(mass > 0, mass, 1)).astype(features.dtype)
    powers = sp.csr_array(
        (np.abs(features.data.astype(np.float64)) ** power, features.indices, features.indptr),
        shape=features.shape,
    )
    mass = np.asarray(powers.sum(axis=1)).ravel() ** (1 / power)
    divisor = np.repeat(np.where(mass > 0, mass, 1), np.diff(features.indptr))
    scaled = features.copy()
    scaled.data = (features.data / divisor).astype(features.dtype)
    return scaled


class Moments:
    """Mean and standard deviation of columns whose rows come in blocks (Chan et al. 1983)."""

    def __init__(self, num_columns: int) -> None:
        self._count = 0
        self.mean = np.zeros(num_columns)
        self._squares = np.zeros(num_columns)  # of the distances from the mean

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Add rows ``[m, columns]``."""
        if not len(rows):
            return
        mean = rows.mean(axis=0, dtype=np.float64)
        step, total = mean - self.mean, self._count + len(rows)
        self._squares += np.square(rows - mean).sum(axis=0)
        self._squares += step**2 * self._count * len(rows) / total
        self.mean = self.mean + step * len(rows) / total
        self._count = total

    @property
    def std(self) -> npt.NDArray[np.float64]:
        """The deviation; 1 where a column is constant, as in `Scaling`."""
        std = np.sqrt(self._squares / max(1, self._count))
        return np.where(std > 0, std, 1.0)
