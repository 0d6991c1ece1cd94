"""From the options of a data module to a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pamt_lightning.data.raw import IntArray
from pamt_lightning.data.split_files import index_split, read_index_split
from pamt_lightning.data.splits import VALIDATION_SEEDS, Split, ppnp_split, random_split
from pamt_lightning.errors import InputError


@dataclass(frozen=True)
class SplitSizes:
    """Sizes of the parts, as `GraphDataModule` takes them."""

    train: int | float
    val: int | float | None
    test: int | float | None
    num_known: int | None

    def random(self, labels: IntArray, seed: int, class_names: Sequence[str]) -> Split:
        """The split ``random``."""
        return random_split(
            labels,
            seed,
            train=self.train,
            val=self.val,
            test=self.test,
            class_names=class_names,
        )

    def ppnp(
        self, labels: IntArray, seed: int, class_names: Sequence[str], num_known: int
    ) -> Split:
        """The published protocol; with a validation seed it tests on the known nodes left over."""
        known = num_known if self.num_known is None else self.num_known
        val = 500 if self.val is None else self.val
        if not isinstance(self.train, int) or not isinstance(val, int) or self.test is not None:
            raise InputError(
                "`split`='ppnp' takes whole numbers for `train` and `val` and none for `test` (all "
                f"unknown nodes are tested), got {self.train!r}, {val!r} and {self.test!r}."
            )
        split = ppnp_split(labels, seed, known, self.train, val, class_names=class_names)
        if seed in VALIDATION_SEEDS:
            # Choices must not be made on the nodes that results are reported on.
            return replace(split, test=split.rest, rest=split.rest[:0])
        return split


def given_split(
    given: str | Mapping[str, IntArray],
    labels: IntArray,
    node_ids: npt.NDArray[np.generic],
    source: str,
) -> Split:
    """The user's own split: the path of index files, or the parts inside the graph's file."""
    if isinstance(given, str):
        return read_index_split(given, labels, node_ids)
    if not given:
        raise InputError(
            "`split`='given' needs index files (`split_path`), or an .npz with train_index, "
            f"val_index and test_index; {source!r} brings none."
        )
    return index_split(given, labels, node_ids, source=source)


def count_or_share(value: Any) -> Any:
    """A size as it was meant: the command line reads the count 60 as 60.0 where shares may be."""
    return int(value) if isinstance(value, float) and value >= 1 and value.is_integer() else value
