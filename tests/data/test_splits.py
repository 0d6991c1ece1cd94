from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from pamt_lightning.data.raw import IntArray
from pamt_lightning.data.splits import (
    TEST_SEEDS,
    VALIDATION_SEEDS,
    Split,
    ppnp_split,
    random_split,
    resolve_split_seed,
)
from pamt_lightning.errors import InputError


def some_labels(num_nodes: int = 600, num_classes: int = 4, seed: int = 0) -> IntArray:
    return np.random.default_rng(seed).integers(num_classes, size=num_nodes)


def naive_protocol(
    labels: list[int], split_seed: int, num_known: int, per_class: int, num_val: int
) -> dict[str, list[int]]:
    """The protocol step by step on plain lists, independent of the code under test."""
    nodes = list(range(len(labels)))
    known = np.random.RandomState(4143496719).choice(nodes, num_known, replace=False).tolist()
    draws = np.random.RandomState(split_seed)
    train: list[int] = []
    for number in sorted(set(labels)):
        members = [node for node in known if labels[node] == number]
        train += draws.choice(members, per_class, replace=False).tolist()
    remaining = [node for node in known if node not in train]
    val = draws.choice(remaining, num_val, replace=False).tolist()
    return {
        "train": train,
        "val": val,
        "test": [node for node in nodes if node not in known],
        "rest": [node for node in remaining if node not in val],
    }


@pytest.mark.parametrize("seed", [*TEST_SEEDS[:3], *VALIDATION_SEEDS[:3], 0, 2**32 - 1])
def test_the_published_protocol_is_met_bit_by_bit(seed: int) -> None:
    labels = some_labels(seed=seed % 1000)
    split = ppnp_split(labels, seed, 300, train_per_class=7, num_val=90)
    expected = naive_protocol(labels.tolist(), seed, 300, 7, 90)
    assert {name: getattr(split, name).tolist() for name in expected} == expected


def test_the_published_sizes_give_these_very_nodes() -> None:
    # Frozen values: a change of NumPy or of the code that moves a published split must be seen.
    split = ppnp_split(np.arange(2810) % 7, "test0", 1500)
    assert [len(part) for part in (split.train, split.val, split.test, split.rest)] == [
        140,
        500,
        1310,
        860,
    ]
    assert split.train[:4].tolist() == [42, 1960, 2065, 1435]
    assert split.val[:4].tolist() == [1118, 247, 2236, 2511]
    assert split.test[:4].tolist() == [1, 2, 5, 11]


def test_each_class_trains_on_the_same_number_of_nodes_in_class_order() -> None:
    labels = some_labels()
    split = ppnp_split(labels, "val0", 400, train_per_class=20, num_val=100)
    assert labels[split.train].tolist() == [k for k in range(4) for _ in range(20)]


def test_parts_of_the_protocol_cover_all_nodes_once() -> None:
    split = ppnp_split(some_labels(), "test3", 400, num_val=100)
    everything = np.concatenate([split.train, split.val, split.test, split.rest])
    assert sorted(everything.tolist()) == list(range(600))


def test_the_test_nodes_are_the_same_for_all_seeds_and_the_others_are_not() -> None:
    labels = some_labels()
    splits = [ppnp_split(labels, seed, 400, num_val=100) for seed in TEST_SEEDS]
    assert all(np.array_equal(split.test, splits[0].test) for split in splits)
    assert len({tuple(split.train.tolist()) for split in splits}) == 20
    assert len({tuple(split.val.tolist()) for split in splits}) == 20


def test_another_known_seed_gives_other_test_nodes() -> None:
    labels = some_labels()
    a, b = (ppnp_split(labels, 1, 400, num_val=100, known_seed=seed) for seed in (1, 2))
    assert not np.array_equal(a.test, b.test)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"num_known": 601}, "`num_known` must be a whole number from 1 to 600 .*got 601"),
        ({"num_known": 0}, "`num_known` .* got 0"),
        ({"train_per_class": 0}, "`train_per_class` .* got 0"),
        ({"num_val": 321}, r"`num_val` must be a whole number from 1 to 320 .*got 321"),
        ({"num_val": 0.5}, "`num_val` .* got 0.5"),
        (
            {"train_per_class": 120, "class_names": ["ant", "bee", "cat", "dog"]},
            r"Class [0-3] \('(ant|bee|cat|dog)'\) has \d+ of the 400 known nodes, but "
            r"`train_per_class` asks for 120",
        ),
    ],
)
def test_sizes_that_the_protocol_cannot_meet_are_told(arguments: Any, part: str) -> None:
    with pytest.raises(InputError, match=part):
        ppnp_split(**{"labels": some_labels(), "split_seed": 0, "num_known": 400, **arguments})


def test_the_protocol_refuses_unknown_labels() -> None:
    labels = some_labels()
    labels[:3] = -1
    with pytest.raises(InputError, match=r"3 of 600 nodes have none. Use the split `random`"):
        ppnp_split(labels, 0, 400)


def test_the_published_seeds_have_names() -> None:
    assert len({*TEST_SEEDS, *VALIDATION_SEEDS}) == 40
    assert [resolve_split_seed(f"test{i}") for i in range(20)] == list(TEST_SEEDS)
    assert [resolve_split_seed(f"val{i}") for i in range(20)] == list(VALIDATION_SEEDS)
    # Checksums, by place, of the lists as they were published.
    assert sum(i * seed for i, seed in enumerate(TEST_SEEDS, start=1)) == 522273278207
    assert sum(i * seed for i, seed in enumerate(VALIDATION_SEEDS, start=1)) == 382547154547
    assert resolve_split_seed(5) == resolve_split_seed("5") == 5


@pytest.mark.parametrize("seed", ["test20", "val-1", "train0", "", "1.5", -1, 2**32, True, 1.0])
def test_a_seed_that_is_neither_number_nor_name_is_refused(seed: Any) -> None:
    with pytest.raises(InputError, match="`split_seed` must be"):
        resolve_split_seed(seed)


def partly_labelled() -> IntArray:
    labels = some_labels(num_nodes=400, num_classes=3)
    labels[np.random.default_rng(1).permutation(400)[:100]] = -1
    return labels


def test_a_random_split_uses_every_labelled_node_once_and_no_other() -> None:
    labels = partly_labelled()
    split = random_split(labels, 3)
    everything = np.concatenate([split.train, split.val, split.test])
    assert sorted(everything.tolist()) == np.flatnonzero(labels >= 0).tolist()
    assert len(split.rest) == 0


def test_a_random_split_trains_on_twenty_of_each_class_and_halves_the_others() -> None:
    labels = partly_labelled()
    split = random_split(labels, 3)
    assert np.bincount(labels[split.train]).tolist() == [20, 20, 20]
    assert (len(split.val), len(split.test)) == (120, 120)


def test_a_random_split_stops_on_five_hundred_nodes_at_most() -> None:
    assert len(random_split(some_labels(3000), 0).val) == 500


def test_counts_and_shares_set_the_sizes_of_a_random_split() -> None:
    labels = partly_labelled()
    sizes = np.bincount(labels[labels >= 0])
    split = random_split(labels, 0, train=0.25, val=0.1, test=50)
    expected = [round(0.25 * size) for size in sizes]
    assert np.bincount(labels[split.train]).tolist() == expected
    assert (len(split.val), len(split.test)) == (30, 50)
    split = random_split(labels, 0, train=5, val=7, test=0.5)
    assert (len(split.train), len(split.val), len(split.test)) == (15, 7, 150)


def test_a_random_split_is_a_function_of_its_seed() -> None:
    labels = partly_labelled()
    first, again, other = (random_split(labels, seed) for seed in (1, 1, 2))
    for part in ("train", "val", "test"):
        assert getattr(first, part).tolist() == getattr(again, part).tolist()
        assert sorted(getattr(first, part)) != sorted(getattr(other, part))


def test_classes_without_a_labelled_node_are_passed_over() -> None:
    labels = np.array([0, 2] * 30)
    split = random_split(labels, 0, train=5)
    assert np.bincount(labels[split.train]).tolist() == [5, 0, 5]


def test_a_class_with_too_few_labels_is_told_by_name_and_number() -> None:
    labels = np.array([0] * 30 + [1] * 3 + [-1] * 9)
    with pytest.raises(InputError) as caught:
        random_split(labels, 0, class_names=["ant", "bee"])
    text = str(caught.value)
    assert "Class 1 ('bee') has 3 labelled nodes, but `train` asks for 20 of each class." in text
    assert "Lower it to at most 3" in text


@pytest.mark.parametrize(
    ("labels", "arguments", "part"),
    [
        ([-1, -1], {}, "No node has a label"),
        ([0, 0, 1, 1], {"train": 2}, "All 4 labelled nodes are used for training"),
        (
            [0] * 9,
            {"train": 2, "val": 4, "test": 4},
            "ask for 4 and 4 nodes, .* leaves only 7 of 9",
        ),
        ([0] * 9, {"train": 2, "val": 8}, "ask for 8 and 0 nodes"),
        ([0] * 9, {"train": 0}, "`train` must be a count .* got 0"),
        ([0] * 9, {"train": 1.0}, "`train` must be .* got 1.0"),
        ([0] * 9, {"train": 1, "val": -1}, "`val` must be .* got -1"),
        ([0] * 9, {"train": 1, "test": True}, "`test` must be .* got True"),
    ],
)
def test_sizes_that_a_random_split_cannot_meet_are_told(
    labels: list[int], arguments: Any, part: str
) -> None:
    with pytest.raises(InputError, match=part):
        random_split(np.array(labels), 0, **arguments)


def parts(**changes: Any) -> dict[str, Any]:
    base = {"train": [0, 1], "val": [2], "test": [3], "rest": [4]}
    arrays = {k: np.asarray(v, dtype=np.int64) for k, v in base.items()}
    return {**arrays, "num_nodes": 5, **changes}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"train": np.empty(0, np.int64)}, "`train` must hold at least one node"),
        ({"val": np.empty(0, np.int64)}, "`val` must hold at least one node"),
        ({"val": np.array([5])}, "`val` must hold node positions from 0 to 4"),
        ({"test": np.array([-1])}, "`test` must hold node positions"),
        ({"test": np.array([1])}, r"node 1 2 times \(in train and test\)"),
        ({"rest": np.array([2])}, r"node 2 2 times \(in val and rest\)"),
        ({"train": np.array([1, 1])}, r"node 1 2 times \(in train\)"),
        ({"test": np.array([3], np.int32)}, "`test` must be a one-dimensional int64 array"),
        ({"test": np.array([[3]])}, "`test` must be a one-dimensional int64 array"),
    ],
)
def test_a_split_refuses_parts_that_overlap_or_leave_the_graph(changes: Any, part: str) -> None:
    with pytest.raises(InputError, match=part):
        Split(**parts(**changes))


def test_a_split_may_have_no_test_nodes_and_cannot_be_changed() -> None:
    split = Split(**parts(test=np.empty(0, np.int64)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        split.train = split.val  # type: ignore[misc]
