from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pamt_lightning.data.raw import IntArray
from pamt_lightning.data.splits import (
    TEST_SEEDS,
    VALIDATION_SEEDS,
    SplitSizes,
    count_or_share,
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
    parts = (split.train, split.val, split.test, split.rest)
    assert [len(part) for part in parts] == [140, 500, 1310, 860]
    assert split.train[:4].tolist() == [42, 1960, 2065, 1435]
    assert split.val[:4].tolist() == [1118, 247, 2236, 2511]
    assert split.test[:4].tolist() == [1, 2, 5, 11]


def test_parts_cover_all_nodes_once_and_classes_train_on_equally_many() -> None:
    labels = some_labels()
    split = ppnp_split(labels, "val0", 400, train_per_class=20, num_val=100)
    assert labels[split.train].tolist() == [k for k in range(4) for _ in range(20)]
    everything = np.concatenate([split.train, split.val, split.test, split.rest])
    assert sorted(everything.tolist()) == list(range(600))


def test_the_test_nodes_are_the_same_for_all_seeds_and_the_others_are_not() -> None:
    labels = some_labels()
    splits = [ppnp_split(labels, seed, 400, num_val=100) for seed in TEST_SEEDS]
    assert all(np.array_equal(split.test, splits[0].test) for split in splits)
    assert len({tuple(split.train.tolist()) for split in splits}) == 20
    assert len({tuple(split.val.tolist()) for split in splits}) == 20


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
def test_sizes_that_the_protocol_cannot_meet_are_reported(arguments: Any, part: str) -> None:
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


def test_a_random_split_uses_every_labelled_node_once_with_twenty_of_each_class() -> None:
    labels = partly_labelled()
    split = random_split(labels, 3)
    everything = np.concatenate([split.train, split.val, split.test])
    assert sorted(everything.tolist()) == np.flatnonzero(labels >= 0).tolist()
    assert len(split.rest) == 0
    assert np.bincount(labels[split.train]).tolist() == [20, 20, 20]
    assert (len(split.val), len(split.test)) == (120, 120)
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


def test_a_class_with_too_few_labels_is_reported_by_name_and_number() -> None:
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
def test_sizes_that_a_random_split_cannot_meet_are_reported(
    labels: list[int], arguments: Any, part: str
) -> None:
    with pytest.raises(InputError, match=part):
        random_split(np.array(labels), 0, **arguments)


def test_sizes_of_the_data_module_go_to_both_splits() -> None:
    labels = some_labels(1000)
    sizes = SplitSizes(7, 90, None, 300)
    for seed, name in ((1, "test"), (VALIDATION_SEEDS[0], "rest")):
        split, plain = sizes.ppnp(labels, seed, (), 500), ppnp_split(labels, seed, 300, 7, 90)
        for part in ("train", "val"):
            assert getattr(split, part).tolist() == getattr(plain, part).tolist()
        # With a validation seed the test nodes of the protocol are never used.
        assert split.test.tolist() == getattr(plain, name).tolist()
    assert len(sizes.ppnp(labels, 1, (), 500).rest) == 300 - 28 - 90
    assert len(SplitSizes(7, 90, None, None).ppnp(labels, 1, (), 500).test) == 500
    for wrong in (SplitSizes(0.1, None, None, None), SplitSizes(7, 0.1, None, None)):
        with pytest.raises(InputError, match=r"0\.1"):
            wrong.ppnp(labels, 1, (), 300)
    with pytest.raises(InputError, match="none for `test`"):
        SplitSizes(7, 90, 50, None).ppnp(labels, 1, (), 300)
    random = SplitSizes(5, 0.1, 50, None).random(labels, 0, ())
    assert (len(random.train), len(random.val), len(random.test)) == (20, 100, 50)


def test_a_count_that_was_parsed_as_a_float_is_a_count() -> None:
    assert [count_or_share(value) for value in (60.0, 0.5, 20, None, 1.5)] == [
        60,
        0.5,
        20,
        None,
        1.5,
    ]
    assert isinstance(count_or_share(60.0), int)
