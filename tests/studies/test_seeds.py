from typing import Any

import pytest

from pamt_lightning.data.splits import TEST_SEEDS, VALIDATION_SEEDS
from pamt_lightning.errors import InputError
from pamt_lightning.studies.seeds import is_for_choosing, split_number, split_seeds


@pytest.mark.parametrize(
    ("value", "seeds"),
    [
        ("test3", ("test0", "test1", "test2")),
        (" val2 ", ("val0", "val1")),
        ("test20", tuple(f"test{number}" for number in range(20))),
        *((text, ("test3", "test1", "42")) for text in ("test3,test1,42", "test3 test1 42")),
        ("test3, test1,\n42,", ("test3", "test1", "42")),
        (["test3", 42], ("test3", "42")),
        (7, ("7",)),
        ("test3,", ("test3",)),
    ],
)
def test_a_name_alone_is_a_count_and_in_a_list_a_seed(value: Any, seeds: tuple[str, ...]) -> None:
    assert split_seeds(value) == seeds


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("test0", r"asks for 0 test seeds; 1 to 20 are published.*is a list: test0,"),
        ("val21", r"asks for 21 val seeds; 1 to 20 are published\.$"),
        ("test3,test20", "test0 to test19"),
        ("one", "must be a number"),
        ("-1,2", "must be a number"),
        ("", "at least one split seed, got"),
        ([], r"got \[\]"),
        (None, "got None"),
        (1.5, r"got 1\.5"),
        ({"test0": 1}, "got {"),
        ("3,test1,3", "got '3' twice"),
        (["test1", TEST_SEEDS[1]], "must name each split once, got 'test1' twice"),
        ("test0,val0", "must be validation seeds or others, not both"),
        (["val3", 7], "must be validation seeds or others, not both"),
    ],
)
def test_what_is_no_list_of_seeds_is_refused(value: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        split_seeds(value)


def test_only_validation_seeds_are_for_choosing() -> None:
    assert all(map(is_for_choosing, ("val0", str(VALIDATION_SEEDS[19]))))
    assert not any(map(is_for_choosing, ("test0", "0")))


def test_a_published_seed_has_its_own_number_and_none_to_choose_on_is_one_to_report_on() -> None:
    seeds = split_seeds("test7,test3,42")
    assert [split_number(seed, place) for place, seed in enumerate(seeds)] == [7, 3, 2]
    test, val = ([split_number(f"{kind}{n}", n) for n in range(20)] for kind in ("test", "val"))
    assert test == list(range(20))
    assert len(set(test + val)) == 40
