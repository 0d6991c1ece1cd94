"""Labels of any kind as class numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pamt_lightning.errors import InputError

IntArray: TypeAlias = npt.NDArray[np.int64]

_INTEGER = re.compile(r"[+-]?[0-9]+")


def sort_class_names(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct class names in order: by number if all are integers, else alphabetically.

    >>> sort_class_names(["10", "2", "10"]), sort_class_names(["10", "2", "b"])
    (('2', '10'), ('10', '2', 'b'))
    """
    distinct = set(names)
    if all(_INTEGER.fullmatch(name) for name in distinct):
        # The name itself breaks the tie of "1" and "01", which are two classes.
        return tuple(sorted(distinct, key=lambda name: (int(name), name)))
    return tuple(sorted(distinct))


def number_labels(texts: Sequence[str], class_names: Sequence[str]) -> IntArray:
    """The class number of each label, -1 for an empty one; a KeyError names an unknown label."""
    number = {name: i for i, name in enumerate(["", *class_names], -1)}
    return np.array([number[text] for text in texts], dtype=np.int64)


def encode_labels(
    labels: Any, class_names: Sequence[str] | None = None
) -> tuple[IntArray, tuple[str, ...]]:
    """Labels as class numbers, -1 if unknown, and the names of the classes.

    -1, ``None``, NaN and an empty text are unknown. Without ``class_names`` each distinct label is
    a class, see `sort_class_names`; whole numbers are positions in ``class_names`` if these are
    given, other labels are names in it.

    >>> encode_labels(["b", None, "a", ""])
    (array([ 1, -1,  0, -1]), ('a', 'b'))
    """
    values = _as_array(labels)
    names = None if class_names is None else tuple(str(name) for name in class_names)
    if names is not None and values.dtype.kind in "iu":
        wrong = values[(values < -1) | (values >= len(names))]
        if len(wrong):
            raise InputError(
                f"`labels` must be -1 if unknown, or positions from 0 to {len(names) - 1} in "
                f"`class_names`, got {wrong[0]}."
            )
        return values.astype(np.int64), names
    if values.dtype.kind in "iub":
        distinct, numbers = np.unique(values, return_inverse=True)
        if distinct.size and distinct[0] < -1:
            raise InputError(f"`labels` must be -1 if unknown, or 0 and more, got {distinct[0]}.")
        texts = ["" if each == -1 else str(each) for each in distinct.tolist()]
        if values.dtype.kind == "b":
            texts = [str(each) for each in distinct.tolist()]
    else:
        import pandas as pd  # a quarter of a second

        numbers, found = pd.factorize(values, use_na_sentinel=True)
        texts = [*map(_text, found.tolist()), ""]  # -1, the last, for missing values
    names = sort_class_names(text for text in texts if text) if names is None else names
    try:
        return number_labels(texts, names)[numbers], names
    except KeyError as error:
        known = ", ".join(names)
        raise InputError(f"`labels` has {error}, which is not a class name ({known}).") from None


def _as_array(labels: Any) -> npt.NDArray[Any]:
    """One label for each node; missing values of a column of whole numbers make it floating."""
    values = np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"`labels` must hold one label per node, got shape {values.shape}.")
    if values.dtype.kind == "f":
        known = np.isfinite(values)
        if np.isinf(values).any() or (values[known] != np.round(values[known])).any():
            raise InputError(
                "`labels` must be classes, got numbers with a fraction or infinite ones: for "
                "classes with such names convert them to texts."
            )
        return np.where(known, values, -1).astype(np.int64)
    if values.dtype.kind not in "iubUSOT" and not str(values.dtype).startswith("str"):
        raise InputError(f"`labels` must be numbers or texts, got {values.dtype}.")
    return values


def _text(label: object) -> str:
    """A label as the name of a class, empty if it is unknown."""
    if isinstance(label, bytes):
        label = label.decode(errors="replace")
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return "" if label == -1 and not isinstance(label, bool) else str(label).strip()
