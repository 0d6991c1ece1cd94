"""Lists of split seeds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pamt_lightning.data.splits import TEST_SEEDS, VALIDATION_SEEDS, resolve_split_seed
from pamt_lightning.errors import InputError

_FIRST_FOR_CHOOSING = 1000
_PUBLISHED = {"test": len(TEST_SEEDS), "val": len(VALIDATION_SEEDS)}


def split_seeds(value: str | int | Sequence[str | int]) -> tuple[str, ...]:
    """Split seeds from ``test20`` (the first 20 test seeds), ``val5``, or a list of names, numbers.

    In a list, ``test3`` is the seed of that name.

    >>> split_seeds("val3"), split_seeds("test0,test7,42")
    (('val0', 'val1', 'val2'), ('test0', 'test7', '42'))
    """
    if isinstance(value, str):
        if counted := re.fullmatch(r"(test|val)(\d+)", value.strip()):
            kind, count = counted[1], int(counted[2])
            if not 1 <= count <= _PUBLISHED[kind]:
                alone = f" One seed alone is a list: {value}," if count == 0 else ""
                raise InputError(
                    f"`seeds` {value!r} asks for {count} {kind} seeds; 1 to {_PUBLISHED[kind]} are "
                    f"published.{alone}"
                )
            return tuple(f"{kind}{number}" for number in range(count))
        value = value.replace(",", " ").split()  # "test3," is a list of one
    listed = [value] if isinstance(value, int) else value
    if not isinstance(listed, (list, tuple)) or not listed:
        raise InputError(f"`seeds` must be a list of at least one split seed, got {value!r}.")
    seeds = tuple(str(seed) for seed in listed)
    try:
        numbers = [resolve_split_seed(seed) for seed in seeds]
    except InputError as error:
        reason = str(error).replace("`split_seed`", "each of them")
        raise InputError(
            f"`seeds` must be test20, val5 or the like, or a list such as 0,1,2; {reason}"
        ) from None
    if len(set(numbers)) < len(numbers):
        double = next(s for s, n in zip(seeds, numbers, strict=True) if numbers.count(n) > 1)
        raise InputError(f"`seeds` must name each split once, got {double!r} twice.")
    if len({is_for_choosing(seed) for seed in seeds}) > 1:
        raise InputError(
            f"`seeds` must be validation seeds or others, not both, got {', '.join(seeds)}: they "
            "are scored on different nodes."
        )
    return seeds


def split_number(seed: str, place: int) -> int:
    """The number of a published seed; for other seeds their position in the user's list.

    Validation seeds count from 1000, so that options are never chosen on the noise that results
    are reported on.
    """
    named = re.fullmatch(r"(test|val)(\d+)", seed)
    if not named:
        return place
    return int(named[2]) + (_FIRST_FOR_CHOOSING if named[1] == "val" else 0)


def is_for_choosing(seed: str) -> bool:
    """Whether a seed is a published validation seed; only on these may options be chosen."""
    return resolve_split_seed(seed) in VALIDATION_SEEDS
