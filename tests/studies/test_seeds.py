from typing import Any

import pytest

from pamt_lightning.data.splits import TEST_SEEDS, VALIDATION_SEEDS
from pamt_lightning.errors import InputError
from pamt_lightning.studies.seeds import is_for_choosing, split_number, split_seeds


def test_a_name_alone_is_a_count() -> None:
    assert split_seeds("test3") == ("test0", "test1", "test2")
    assert split_seeds(" val2 ") == ("val0", "val1")
    assert split_seeds("test20") == tuple(f"test{number}" for number in range(20))


@pytest.mark.parametrize("written", ["test3,test1,42", "test3 test1 42", "test3, test1,\n42,"])
def test_in_a_list_a_name_is_a_seed(written: str) -> None:
    assert split_seeds(written) == ("test3", "test1", "42")


def test_a_list_of_yaml_may_mix_names_and_numbers() -> None:
    assert split_seeds(["test3", 42]) == ("test3", "42")
    assert split_seeds(7) == ("7",)
    assert split_seeds("test3,") == ("test3",)


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
    ],
)
def test_what_is_no_list_of_seeds_is_refused(value: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        split_seeds(value)


def test_only_validation_seeds_are_for_choosing() -> None:
    assert is_for_choosing("val0")
    assert is_for_choosing(str(VALIDATION_SEEDS[19]))
    assert not is_for_choosing("test0")
    assert not is_for_choosing("0")


@pytest.mark.parametrize("seeds", ["test0,val0", ["val3", 7]])
def test_seeds_to_choose_on_and_others_do_not_mix(seeds: str | list[str | int]) -> None:
    with pytest.raises(InputError, match="must be validation seeds or others, not both"):
        split_seeds(seeds)


def test_a_published_seed_has_its_own_number_wherever_it_stands() -> None:
    seeds = split_seeds("test7,test3,42")
    assert [split_number(seed, place) for place, seed in enumerate(seeds)] == [7, 3, 2]


def test_no_noise_to_choose_on_is_noise_to_report_on() -> None:
    numbers = {
        kind: {split_number(f"{kind}{n}", place=n) for n in range(20)} for kind in ("test", "val")
    }
    assert numbers["test"] == set(range(20))
    assert len(numbers["val"]) == 20
    assert not numbers["test"] & numbers["val"]
