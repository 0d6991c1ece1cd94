from __future__ import annotations

import math
import random
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import bootstrap, rankdata, wilcoxon

from pamt_lightning.errors import InputError
from pamt_lightning.studies.statistics import (
    Comparison,
    auc,
    compare,
    compare_all,
    holm,
    summarize,
)


def by_split(values: Any) -> dict[str, float]:
    return {f"split {i}": float(value) for i, value in enumerate(values)}


def against_zero(differences: Any) -> Comparison:
    return compare(by_split(differences), by_split([0] * len(differences)))


def family(**ours: Any) -> dict[str, Comparison]:
    """Comparisons of values with zeros."""
    return compare_all({key: (by_split(v), by_split([0] * len(v))) for key, v in ours.items()})


def verdicts(**ours: Any) -> dict[str, str]:
    return {key: found.verdict for key, found in family(**ours).items()}


def drawn(count: int, seed: int = 0, loc: float = 0.8) -> NDArray[np.float64]:
    """Values as those of a study: shares, far from evenly spread."""
    return loc + 0.05 * (np.random.default_rng(seed).gamma(2.0, size=count) - 2)


def counted_p(differences: Any) -> float:
    """The two-sided p-value by trying all signs of the differences that are not zero."""
    ranks = rankdata(np.abs(differences))
    free = ranks[np.asarray(differences) != 0]
    found = ranks[np.asarray(differences) > 0].sum()
    sums = np.array([free[list(signs)].sum() for signs in product([False, True], repeat=len(free))])
    return float(min(1, 2 * min((sums <= found).mean(), (sums >= found).mean())))


# Summaries


def test_the_interval_is_the_percentile_interval_of_scipy() -> None:
    values = drawn(12)
    expected = bootstrap(
        (values,), np.mean, n_resamples=100_000, batch=10_000, method="percentile", rng=1
    ).confidence_interval
    found = summarize(values.tolist())
    width = expected.high - expected.low
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=width / 50)
    # A quarter of all resamples of two values holds one value only, a quarter the other.
    assert (summarize([0.25, 0.75]).low, summarize([0.25, 0.75]).high) == (0.25, 0.75)


@pytest.mark.parametrize(("count", "least", "most"), [(10, 0.86, 0.93), (30, 0.915, 0.975)])
def test_nineteen_in_twenty_intervals_hold_the_mean_given_enough_splits(
    count: int, least: float, most: float
) -> None:
    samples = np.random.default_rng(3).normal(0.8, 0.02, size=(500, count))
    summaries = [summarize(sample.tolist()) for sample in samples]
    hits = np.mean([summary.low <= 0.8 <= summary.high for summary in summaries])
    assert least < hits < most


def test_neither_the_order_of_the_values_nor_the_global_seed_changes_a_bit() -> None:
    values = drawn(20).tolist()
    shuffled = random.Random(0).sample(values, len(values))
    np.random.seed(5)
    first, expected = summarize(values), np.random.random()
    np.random.seed(5)
    assert summarize(shuffled) == first
    assert np.random.random() == expected  # no global draw


def test_mean_and_spread_are_those_of_the_textbook_if_there_are_enough_values() -> None:
    summary = summarize([2, 4, 4, 4, 5, 5, 7, 9])
    assert (summary.count, summary.mean) == (8, 5)
    assert summary.std == pytest.approx(math.sqrt(32 / 7))
    one, none = summarize([0.5]), summarize([])
    assert (one.count, one.mean, none.count) == (1, 0.5, 0)
    assert all(map(math.isnan, (one.std, one.low, one.high, none.mean, none.std, none.low)))


# The test of one pair


@pytest.mark.parametrize("count", [6, 9, 17, 50])
@pytest.mark.parametrize("seed", range(5))
def test_without_ties_the_p_value_is_the_exact_one_of_scipy(count: int, seed: int) -> None:
    ours, reference = drawn(count, seed, 0.82), drawn(count, seed + 100)
    expected = wilcoxon(ours, reference, method="exact").pvalue
    assert compare(by_split(ours), by_split(reference)).p_value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "differences",
    [
        [1, 1, 1, 1, 1],  # 2 / 2⁵, which the normal approximation calls significant
        [1, 1, -1, 2, 2, 3],
        [0, 0, 1, 2, -3, 4, 4],
        [0, 1, 0, 0],
        [3, 3, 3, -3, 5, 5, -1, 0, 2, 2, 2],
        [-1, -2, -2, -4, -4, 0, -9, -9, -9],
    ],
)
def test_with_ties_and_zeros_the_p_value_counts_all_signs(differences: list[int]) -> None:
    assert against_zero(differences).p_value == counted_p(differences)


def test_a_zero_keeps_its_rank_as_pratt_has_it() -> None:
    # Ranks 2, 3, 4, 5. Up to the 5 of the minus sum up {}, {2}, {3}, {4}, {5}, {2, 3}: 6 of 16.
    assert against_zero([0, 1, 2, 3, -4]).p_value == 2 * 6 / 16
    # Dropped: ranks 1, 2, 3, 4, and up to 4 there is {1, 3} too.
    assert against_zero([1, 2, 3, -4]).p_value == 2 * 7 / 16


@pytest.mark.parametrize("num_zeros", [0, 7])
def test_many_splits_take_the_normal_approximation_of_scipy(num_zeros: int) -> None:
    differences = np.round(drawn(80, loc=0.01), 3)
    differences = np.concatenate([differences[differences != 0], np.zeros(num_zeros)])
    expected = wilcoxon(differences, zero_method="pratt", method="approx").pvalue
    assert 0.01 < expected < 0.99
    assert against_zero(differences).p_value == pytest.approx(expected)


def test_the_exact_and_the_approximate_p_value_meet() -> None:
    differences = np.round(drawn(51, loc=0.01), 2) + 0.001  # ties, no zeros
    more, fewer = against_zero(differences).p_value, against_zero(differences[:50]).p_value
    expected = wilcoxon(differences[:50], method="approx").pvalue
    assert fewer != expected
    assert fewer == pytest.approx(expected, abs=0.01)
    assert more == wilcoxon(differences, method="approx").pvalue


def test_differences_that_are_one_but_for_rounding_tie() -> None:
    reference = [0.1, 0.2, 0.3, 0.5, 0.7, 0.6, 0.8]
    ours = [0.2, 0.3, 0.4, 0.6, 0.6, 0.6 + 1e-16, 0.1 + 0.7]
    assert len({a - b for a, b in zip(ours, reference, strict=True)}) > 4
    found = compare(by_split(ours), by_split(reference))
    plain = against_zero([0.1, 0.1, 0.1, 0.1, -0.1, 0, 0])
    assert (found.p_value, found.effect) == (plain.p_value, plain.effect)
    # Accuracies of single precision tie as the numbers of nodes do.
    right = [(500, 497), (497, 494), (460, 463), (455, 455), (480, 477), (433, 430), (470, 462)]
    ours, theirs = ([float(np.float32(pair[side] / 610)) for pair in right] for side in (0, 1))
    assert len({abs(a - b) for a, b in zip(ours, theirs, strict=True)}) > 3  # of three sizes
    found = compare(by_split(ours), by_split(theirs))
    plain = against_zero([a - b for a, b in right])
    assert (found.p_value, found.effect) == (plain.p_value, plain.effect)


@pytest.mark.parametrize(
    ("differences", "effect"),
    [
        ([1, 2, 3, 4, -5, 6], (16 - 5) / 21),
        ([1, 1, 1, -1], 0.5),
        ([0.1, 0.2, 0.3], 1),
        ([-0.1, -0.2, -0.3], -1),
        ([0] * 9 + [0.1], 10 / 55),
    ],
)
def test_the_effect_is_the_balance_of_the_ranks(differences: list[float], effect: float) -> None:
    assert against_zero(differences).effect == pytest.approx(effect)


def test_difference_and_interval_are_those_of_the_paired_differences() -> None:
    ours, reference = drawn(15, 1), drawn(15, 2)
    found = compare(by_split(ours), by_split(reference))
    expected = summarize((ours - reference).tolist())
    assert (found.difference, found.low, found.high) == pytest.approx(
        (expected.mean, expected.low, expected.high)
    )


@pytest.mark.parametrize("values", [drawn(12, 4), np.array([3, -3, 1, -1, 0, 0, 2])])
def test_swapping_the_sides_mirrors_everything(values: NDArray[np.float64]) -> None:
    zero = dict.fromkeys(by_split(values), 0.8)
    one, other = compare(by_split(values), zero), compare(zero, by_split(values))
    assert other.difference == pytest.approx(-one.difference)
    assert other.effect == pytest.approx(-one.effect)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=1e-12)
    assert (other.count, other.p_value) == (one.count, one.p_value)


def test_splits_are_paired_by_name_and_those_that_only_one_has_are_left_out() -> None:
    ours, reference = by_split(drawn(12, 1, 0.85)), by_split(drawn(12, 2))
    shuffled = dict(random.Random(0).sample([*ours.items()], 12))
    renamed = dict(zip(ours, shuffled.values(), strict=True))
    found = compare(ours, reference)
    assert compare(shuffled, reference) == found
    assert compare(renamed, reference) != found
    assert compare(ours | {"mine": math.nan, "too": 9.0}, {"b": math.inf} | reference) == found


@pytest.mark.parametrize("num_common", [0, 1])
def test_fewer_than_two_common_splits_say_nothing(num_common: int) -> None:
    reference = dict([*by_split(drawn(5)).items()][:num_common]) | {"other": 0.5}
    found = compare(by_split(drawn(5, 1)), reference)
    assert (found.count, found.verdict) == (num_common, "too few" if num_common else "unknown")
    rest = (found.difference, found.low, found.high, found.p_value, found.p_adjusted, found.effect)
    assert all(map(math.isnan, rest))


# Verdicts


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        (range(1, 7), "better"),  # p = 0.03125
        (range(-6, 0), "worse"),
        (range(1, 6), "too few"),  # 0.0625
        ([1, -1, 2, -2, 3], "too few"),
        ([1, -1, 2, -2, 3, -3], "tie"),
        ([0] * 5, "too few"),
        ([0] * 6, "tie"),
        # Methods that draw most of enough splits tie.
        ([1, 2, 3, 4, 5, 0], "tie"),
        ([1, 2, 3, 4, 5, 0, 0, 0], "tie"),
        ([1, 2, 3, 4, 5, 6, 0, 0], "better"),
        # The side is that of the ranks, even if one split turns the mean.
        ([*range(1, 12), -1000], "better"),
    ],
)
def test_the_verdict_on_one_pair(differences: Any, verdict: str) -> None:
    assert against_zero(differences).verdict == verdict


# Families


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        # In order .005 * 4, .01 * 3, .03 * 2, .04 * 1, which may not be less than the one before.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([math.nan, 0.01, 0.04, math.nan, 0.03], [math.nan, 0.03, 0.06, math.nan, 0.06]),
        ([0.5, 0.4, 0.9], [1, 1, 1]),
        ([0.02, 0.02], [0.04, 0.04]),
        ([0, 1], [0, 1]),
        ([], []),
    ],
)
def test_holm_by_hand(p_values: list[float], adjusted: list[float]) -> None:
    assert holm(p_values) == pytest.approx(adjusted, nan_ok=True)


def test_a_family_is_each_comparison_with_corrected_p_values() -> None:
    shifts = {"far": 0.1, "near": 0.03, "none": 0.0, "behind": -0.1}
    pairs = {
        key: (by_split(drawn(12, seed, 0.8 + shift)), by_split(drawn(12, seed + 20)))
        for seed, (key, shift) in enumerate(shifts.items())
    }
    found = compare_all(pairs)
    alone = {key: compare(*pair) for key, pair in pairs.items()}
    expected = holm([one.p_value for one in alone.values()])
    assert [one.p_adjusted for one in found.values()] == expected
    for key, one in found.items():
        assert replace(one, p_adjusted=one.p_value, verdict=alone[key].verdict) == alone[key]
    assert [found[key].verdict for key in shifts] == ["better", "tie", "tie", "worse"]


def test_splits_may_be_too_few_for_a_family_of_this_size() -> None:
    wins = range(1, 7)  # p = 0.03125
    assert verdicts(one=wins) == {"one": "better"}
    assert verdicts(one=wins, two=wins) == dict.fromkeys(("one", "two"), "too few")
    # Whatever they say: 4 × 2 / 2⁷ is above the level. Methods that agree everywhere tie.
    few = {"even": [1, -1, 2, -2, 3, -3, 0], "uneven": [1, -1, 2, -2, 3, -3, 4]}
    found = verdicts(**few, wins=range(1, 8), same=[0] * 7)
    assert found == dict.fromkeys(("even", "uneven", "wins"), "too few") | {"same": "tie"}
    # Ten splits suffice.
    mostly = [*range(1, 9), -9, -10]
    assert verdicts(one=mostly, two=mostly) == {"one": "tie", "two": "tie"}


def test_too_few_splits_count_in_a_family_and_none_do_not() -> None:
    found = family(many=range(1, 10), five=range(1, 6), none=[])
    shown = {key: (one.verdict, one.p_adjusted) for key, one in found.items()}
    assert shown.pop("none")[0] == "unknown"
    assert shown == {"many": ("better", 2 * 2 / 2**9), "five": ("too few", 2 / 2**5)}
    assert math.isnan(found["none"].p_adjusted)


def test_a_value_that_is_not_finite_is_refused_by_name() -> None:
    good, bad = by_split([0.5, 0.5]), by_split([0.5, math.nan])
    for name, call in (
        ("values", lambda: summarize(bad.values())),
        ("ours", lambda: compare(bad, good)),
        ("reference", lambda: compare(good, bad)),
    ):
        with pytest.raises(InputError, match=rf"`{name}` .* nan"):
            call()
    with pytest.raises(ValueError, match="nan"):
        auc([0.1, math.nan], [0.2])


# Area under the curve


@pytest.mark.parametrize("levels", [2, 5, 100, None])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_the_area_is_that_of_sklearn_ties_included(levels: int | None, share: float) -> None:
    metrics = import_module("sklearn.metrics")
    draw = np.random.default_rng(0)
    positive = draw.random(500) < share
    scores = draw.normal(positive.astype(float))
    if levels is not None:
        scores = np.round(scores * levels / 6)
    expected = metrics.roc_auc_score(positive, scores)
    assert auc(scores[positive], scores[~positive]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("positive", "negative", "area"),
    [
        ([0.9, 0.5], [0.5, 0.7, 0.1], 4.5 / 6),  # of six pairs, four are in order and one ties
        ([2, 3], [1], 1),
        ([1, 2], [3], 0),
        ([1, 1], [1], 0.5),
        ([math.inf], [-math.inf], 1),
        ([1], [], math.nan),
        ([], [1], math.nan),
    ],
)
def test_the_area_is_the_share_of_pairs_in_order(
    positive: list[float], negative: list[float], area: float
) -> None:
    assert auc(positive, negative) == pytest.approx(area, nan_ok=True, abs=0)


def test_the_area_of_many_single_precision_scores_is_not_rounded() -> None:
    # 10⁵ · 10⁵ pairs and sums of ranks of 10¹⁰: beyond what 32 bits hold.
    scores = np.arange(200_000, dtype=np.float32)
    assert auc(scores[1::2], scores[::2]) == (1e5 + 1) / 2e5
