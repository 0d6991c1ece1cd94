from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pamt_lightning.data.splits import (
    TEST_SEEDS,
    VALIDATION_SEEDS,
    count_or_share,
    ppnp_split,
    random_split,
    resolve_split_seed,
)
from pamt_lightning.errors import InputError
from pamt_lightning.interop.labels import IntArray


def some_labels(num_nodes: int = 600, num_classes: int = 4, seed: int = 0) -> IntArray:
    return np.random.default_rng(seed).integers(num_classes, size=num_nodes)


def partly_labelled() -> IntArray:
    labels = some_labels(num_nodes=400, num_classes=3)
    labels[np.random.default_rng(1).permutation(400)[:100]] = -1
    return labels


def naive_protocol(
    labels: list[int], split_seed: int, num_known: int, per_class: int, num_val: int
) -> list[list[int]]:
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
    # With a validation seed the test nodes of the protocol are never used.
    if split_seed in VALIDATION_SEEDS:
        return [train, val, [node for node in remaining if node not in val]]
    return [train, val, [node for node in nodes if node not in known]]


@pytest.mark.parametrize("seed", [*TEST_SEEDS[:3], *VALIDATION_SEEDS[:3], 0, 2**32 - 1])
def test_the_published_protocol_is_met_bit_by_bit(seed: int) -> None:
    labels = some_labels(seed=seed % 1000)
    split = ppnp_split(labels, seed, 300, train=7, val=90)
    assert [part.tolist() for part in split] == naive_protocol(labels.tolist(), seed, 300, 7, 90)


def test_the_published_sizes_give_these_very_nodes() -> None:
    # Frozen values: a change of NumPy or of the code that moves a published split must be seen.
    split = ppnp_split(np.arange(2810) % 7, TEST_SEEDS[0], 1500)
    assert [len(part) for part in split] == [140, 500, 1310]
    assert split.train[:4].tolist() == [42, 1960, 2065, 1435]
    assert split.val[:4].tolist() == [1118, 247, 2236, 2511]
    assert split.test[:4].tolist() == [1, 2, 5, 11]


def test_validation_seeds_never_touch_the_test_nodes_which_all_test_seeds_share() -> None:
    labels = some_labels()
    splits = [ppnp_split(labels, seed, 400, val=100) for seed in TEST_SEEDS]
    assert all(np.array_equal(split.test, splits[0].test) for split in splits)
    for part in ("train", "val"):
        assert len({tuple(getattr(split, part)) for split in splits}) == 20
    for seed in VALIDATION_SEEDS:
        parts = [*ppnp_split(labels, seed, 400, val=100), splits[0].test]
        assert sorted(np.concatenate(parts).tolist()) == list(range(600))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"num_known": 601}, r"`num_known` .* \[1, 600\], got 601"),
        ({"num_known": 0}, "`num_known` .* got 0"),
        ({"train": 0.1}, "`train` must be a whole number .* got 0.1"),
        ({"val": 321}, r"`val` must be a whole number in \[1, 320\] .*got 321"),
        ({"labels": np.array([0, -1, -1]), "num_known": 2, "train": 1}, "2 of 3 nodes have none"),
        (
            {"train": 120, "class_names": ["ant", "bee", "cat", "dog"]},
            r"Class [0-3] \('(ant|bee|cat|dog)'\) has \d+ of the 400 known nodes, but "
            r"`train` asks for 120",
        ),
    ],
)
def test_what_the_protocol_cannot_meet_is_reported(arguments: Any, part: str) -> None:
    with pytest.raises(InputError, match=part):
        ppnp_split(**{"labels": some_labels(), "split_seed": 0, "num_known": 400, **arguments})


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


def test_a_random_split_uses_every_labelled_node_once_with_twenty_of_each_class() -> None:
    labels = partly_labelled()
    split = random_split(labels, 3)
    assert sorted(np.concatenate(split).tolist()) == np.flatnonzero(labels >= 0).tolist()
    assert np.bincount(labels[split.train]).tolist() == [20, 20, 20]
    assert (len(split.val), len(split.test)) == (120, 120)
    for first, again, other in zip(split, *(random_split(labels, s) for s in (3, 2)), strict=True):
        assert first.tolist() == again.tolist()
        assert sorted(first) != sorted(other)
    assert len(random_split(some_labels(3000), 0).val) == 500
    gap = np.array([0, 2] * 30)  # a class without a labelled node is passed over
    assert np.bincount(gap[random_split(gap, 0, train=5).train]).tolist() == [5, 0, 5]


def test_counts_and_shares_set_the_sizes_of_a_random_split() -> None:
    labels = partly_labelled()
    sizes = np.bincount(labels[labels >= 0])
    split = random_split(labels, 0, train=0.25, val=0.1, test=50)
    expected = [round(0.25 * size) for size in sizes]
    assert np.bincount(labels[split.train]).tolist() == expected
    assert (len(split.val), len(split.test)) == (30, 50)
    assert [len(part) for part in random_split(labels, 0, train=5, val=7, test=0.5)] == [15, 7, 150]


@pytest.mark.parametrize(
    ("labels", "arguments", "part"),
    [
        ([-1, -1], {}, "No node has a label"),
        (
            [0] * 30 + [1] * 3 + [-1] * 9,
            {"class_names": ["ant", "bee"]},
            r"Class 1 \('bee'\) has 3 labelled nodes, .* 20 of each class. Lower it to at most 3",
        ),
        ([0] * 30 + [1], {}, "Class 1 has 1 labelled node, but"),
        ([0, 0, 1, 1], {"train": 2}, "leaves only 0 of 4 labelled nodes"),
        ([0] * 9, {"train": 2, "val": 4, "test": 4}, "for 4 and 4 nodes, .* leaves only 7 of 9"),
        ([0] * 9, {"train": 2, "val": 8}, "ask for 8 and 0 nodes"),
        ([0] * 9, {"train": 0}, "`train` must be a count .* got 0"),
        ([0] * 9, {"train": 1.0}, "`train` must be .* got 1.0"),
        ([0] * 9, {"train": 1, "val": -1}, "`val` must be .* got -1"),
        ([0] * 9, {"train": 1, "test": True}, "`test` must be .* got True"),
    ],
)
def test_sizes_that_a_random_split_cannot_meet_are_reported(
    labels: list[int], arguments: Any, part: str
) -> None:
    with pytest.raises(InputError, match=part):
        random_split(np.array(labels), 0, **arguments)


def test_a_count_that_was_parsed_as_a_float_is_a_count() -> None:
    assert [count_or_share(value) for value in (0.5, 20, None, 1.5)] == [0.5, 20, None, 1.5]
    assert repr(count_or_share(60.0)) == "60"
