"""Training, validation and test nodes, drawn with a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pamt_lightning.errors import InputError, require_in
from pamt_lightning.interop.labels import IntArray

# Seed with which the published protocol draws the nodes that may be seen before testing.
_KNOWN_SEED = 4143496719

# Split seeds of the published protocol: results are reported on the test seeds, choices are made on
# the validation seeds.
TEST_SEEDS = (
    *(2144199730, 794209841, 2985733717, 2282690970, 1901557222),
    *(2009332812, 2266730407, 635625077, 3538425002, 960893189),
    *(497096336, 3940842554, 3594628340, 948012117, 3305901371),
    *(3644534211, 2297033685, 4092258879, 2590091101, 1694925034),
)
VALIDATION_SEEDS = (
    *(2413340114, 3258769933, 1789234713, 2222151463, 2813247115),
    *(1920426428, 4272044734, 2092442742, 841404887, 2188879532),
    *(646784207, 1633698412, 2256863076, 374355442, 289680769),
    *(4281139389, 4263036964, 900418539, 119332950, 1628837138),
)
_NAMED_SEEDS = {
    **{f"test{i}": seed for i, seed in enumerate(TEST_SEEDS)},
    **{f"val{i}": seed for i, seed in enumerate(VALIDATION_SEEDS)},
}

_MAX_SEED = 2**32 - 1  # of numpy.random.RandomState


class Split(NamedTuple):
    """Node positions by part; parts share no node, and ``test`` may be empty."""

    train: IntArray
    val: IntArray
    test: IntArray


def resolve_split_seed(seed: int | str) -> int:
    """A split seed from a number or the name of a published seed (test0-19, val0-19).

    >>> resolve_split_seed("test0"), resolve_split_seed("val19"), resolve_split_seed(7)
    (2144199730, 1628837138, 7)
    """
    if isinstance(seed, str):
        if seed in _NAMED_SEEDS:
            return _NAMED_SEEDS[seed]
        if not (seed.isascii() and seed.isdigit()):
            raise InputError(
                "`split_seed` must be a number, or the name of a published seed: test0 to "
                f"test{len(TEST_SEEDS) - 1}, val0 to val{len(VALIDATION_SEEDS) - 1}, got {seed!r}."
            )
        seed = int(seed)
    require_in(f"[0, {_MAX_SEED}]", whole=True, split_seed=seed)
    return seed


def ppnp_split(
    labels: IntArray,
    split_seed: int,
    num_known: int,
    train: int = 20,
    val: int = 500,
    class_names: Sequence[str] = (),
) -> Split:
    """The split of the published protocol, equal to it bit by bit, order included.

    ``num_known`` nodes (1500, and 5000 for ms_academic) are drawn with a fixed seed; all others are
    test nodes, in every run. Among the known nodes, ``split_seed`` draws ``train`` nodes of each
    class and then ``val`` validation nodes. With a validation seed, the remaining known nodes are
    the test nodes: choices must not be made on the nodes that results are reported on.
    """
    num_nodes = len(labels)
    require_in(f"[1, {num_nodes}]", whole=True, num_known=num_known)
    require_in(f"[1, {num_known}]", whole=True, note=" (`num_known`)", train=train)
    if labels.min() < 0:
        raise InputError(
            f"The split `ppnp` needs a label for every node, but {np.count_nonzero(labels < 0)} of "
            f"{num_nodes} nodes have none. Use the split `random`."
        )
    # The published code draws from arrays in the order of the previous draw: the calls below must
    # not be sorted or merged.
    all_nodes = np.arange(num_nodes)
    known = np.random.RandomState(_KNOWN_SEED).choice(all_nodes, num_known, replace=False)
    random = np.random.RandomState(split_seed)
    train_by_class = []
    for number in range(int(labels.max()) + 1):
        of_class = known[labels[known] == number]
        if len(of_class) < train:
            raise InputError(
                f"{_class_text(number, class_names)} has {len(of_class)} of the {num_known} known "
                f"nodes, but `train` asks for {train}. Lower it, or raise `num_known`."
            )
        train_by_class.append(random.choice(of_class, train, replace=False))
    trained = np.concatenate(train_by_class)
    candidates = _exclude(known, trained)
    left = " (the known nodes not used for training)"
    require_in(f"[1, {len(candidates)}]", whole=True, note=left, val=val)
    validated = random.choice(candidates, val, replace=False)
    if split_seed in VALIDATION_SEEDS:
        return Split(trained, validated, _exclude(candidates, validated))
    return Split(trained, validated, _exclude(all_nodes, known))


def random_split(
    labels: IntArray,
    split_seed: int,
    train: int | float = 20,
    val: int | float | None = None,
    test: int | float | None = None,
    class_names: Sequence[str] = (),
) -> Split:
    """Split the labelled nodes: training nodes class by class, then validation and test nodes.

    A whole number is a count, a fraction is a share: of each class for ``train`` (at least one
    node), of all labelled nodes for ``val`` and ``test``. By default 500 nodes are for validation,
    or half of those not used for training if that is less, and all others for testing. Nodes
    without a label (-1) are in no part, classes without a labelled node are skipped.
    """
    labelled = np.flatnonzero(labels >= 0)
    if len(labelled) == 0:
        raise InputError(
            "No node has a label, so there is nothing to train or test on. Fill in labels of some "
            "nodes; to predict, use `pamt predict`."
        )
    # RandomState and not Generator: NumPy promises that its draws never change between versions.
    order = np.random.RandomState(split_seed).permutation(labelled)
    train_by_class = []
    for number in np.flatnonzero(np.bincount(labels[labelled])).tolist():
        of_class = order[labels[order] == number]
        count = _count("train", train, len(of_class))
        if len(of_class) < count:
            raise InputError(
                f"{_class_text(number, class_names)} has {len(of_class)} labelled "
                f"node{'s' * (len(of_class) > 1)}, but `train` asks for {count} of each class. "
                f"Lower it to at most {len(of_class)}, give a share such as 0.2, or label more "
                "nodes of this class."
            )
        train_by_class.append(of_class[:count])
    trained = np.concatenate(train_by_class)
    others = _exclude(order, trained)
    num_val = min(500, max(1, len(others) // 2))
    if val is not None:
        num_val = _count("val", val, len(labelled))
    num_test = max(0, len(others) - num_val)
    if test is not None:
        num_test = _count("test", test, len(labelled))
    if num_val + num_test > len(others):
        raise InputError(
            f"`val` and `test` ask for {num_val} and {num_test} nodes, but training leaves only "
            f"{len(others)} of {len(labelled)} labelled nodes. Lower `val`, `test` or `train`."
        )
    return Split(trained, others[:num_val], others[num_val : num_val + num_test])


def stratified_folds(labels: IntArray, num_folds: int, seed: int) -> list[IntArray]:
    """The labelled nodes in disjoint folds of similar size, the labels of each class spread evenly.

    There are fewer folds if there are few labels, so that each has two nodes. The only label of a
    class is in no fold: it always trains.
    """
    require_in("[2, inf)", whole=True, folds=num_folds)
    labelled = np.flatnonzero(labels >= 0)
    order = np.random.RandomState(seed).permutation(labelled)
    order = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels[labelled]) if len(labelled) else np.zeros(0, int)
    order = order[counts[labels[order]] > 1]
    num_folds = max(2, min(num_folds, len(order) // 2))
    if len(order) < 2:
        raise InputError(
            "Stopping needs validation nodes, but no class has two labelled nodes: label more."
        )
    return [order[fold::num_folds] for fold in range(num_folds)]


def count_or_share(value: Any) -> Any:
    """A whole number if that was meant: the command line parses the count 60 as 60.0."""
    return int(value) if isinstance(value, float) and value >= 1 and value.is_integer() else value


def _exclude(nodes: IntArray, excluded: IntArray) -> IntArray:
    """The nodes that are not excluded, in their order."""
    return nodes[~np.isin(nodes, excluded)]


def _class_text(number: int, class_names: Sequence[str]) -> str:
    name = f" ({class_names[number]!r})" if number < len(class_names) else ""
    return f"Class {number}{name}"


def _count(name: str, value: int | float, total: int) -> int:
    """The count itself, or the count that a share of ``total`` makes."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, float) and 0 < value < 1:
        return max(1, round(value * total))
    raise InputError(
        f"`{name}` must be a count (a whole number from 1) or a share between 0 and 1, "
        f"got {value!r}."
    )
