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

NO_SPLIT = dict.fromkeys(["a", "b", "c"], 0.5)


def figures(values: Any) -> dict[str, float]:
    return {f"split {i}": float(value) for i, value in enumerate(values)}


def against_zero(differences: Any) -> Comparison:
    return compare(figures(differences), dict.fromkeys(figures(differences), 0.0))


def drawn(count: int, seed: int = 0, loc: float = 0.8) -> NDArray[np.float64]:
    """Figures as those of a study: shares, far from evenly spread."""
    return loc + 0.05 * (np.random.default_rng(seed).gamma(2.0, size=count) - 2)


def counted_p(differences: Any) -> float:
    """The two-sided p-value by trying all signs of the differences that are not zero."""
    ranks = rankdata(np.abs(differences))
    free = ranks[np.asarray(differences) != 0]
    found = ranks[np.asarray(differences) > 0].sum()
    sums = np.array([free[list(signs)].sum() for signs in product([False, True], repeat=len(free))])
    return float(min(1, 2 * min((sums <= found).mean(), (sums >= found).mean())))


# ---- summaries ------------------------------------------------------------------------------


def test_mean_and_spread_are_those_of_the_textbook() -> None:
    summary = summarize([2, 4, 4, 4, 5, 5, 7, 9])
    assert (summary.count, summary.mean) == (8, 5)
    assert summary.std == pytest.approx(math.sqrt(32 / 7))
    assert summarize([1, 3]).std == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
def test_the_interval_is_the_percentile_interval_of_scipy(confidence: float) -> None:
    values = drawn(12)
    expected = bootstrap(
        (values,),
        np.mean,
        n_resamples=100_000,
        batch=10_000,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    found = summarize(values.tolist(), confidence=confidence, resamples=100_000)
    width = expected.high - expected.low
    assert found.low == pytest.approx(expected.low, abs=width / 50)
    assert found.high == pytest.approx(expected.high, abs=width / 50)


def test_the_interval_of_two_values_reaches_from_one_to_the_other() -> None:
    # A quarter of all resamples holds one value only, so does a quarter the other.
    summary = summarize([0.25, 0.75])
    assert (summary.low, summary.high) == (0.25, 0.75)
    assert summarize([0.25, 0.75], confidence=0.4).low == 0.5


@pytest.mark.parametrize(("count", "least", "most"), [(10, 0.87, 0.93), (30, 0.925, 0.965)])
def test_nineteen_in_twenty_intervals_hold_the_mean_given_enough_splits(
    count: int, least: float, most: float
) -> None:
    samples = np.random.default_rng(3).normal(0.8, 0.02, size=(1000, count))
    summaries = [summarize(sample.tolist(), resamples=1000) for sample in samples]
    hits = np.mean([summary.low <= 0.8 <= summary.high for summary in summaries])
    assert least < hits < most


def test_the_order_of_the_values_changes_no_bit() -> None:
    values = drawn(20).tolist()
    shuffled = random.Random(0).sample(values, len(values))
    assert shuffled != values
    assert summarize(shuffled) == summarize(values)
    assert summarize(np.array([0.5, 0.25], dtype=np.float32)) == summarize([0.25, 0.5])


def test_the_interval_has_random_numbers_of_its_own() -> None:
    values = drawn(10).tolist()
    first = summarize(values)
    np.random.seed(5)
    expected = np.random.random()
    np.random.seed(5)
    assert summarize(values) == first
    assert np.random.random() == expected


def test_one_value_has_a_mean_but_no_spread_and_none_has_nothing() -> None:
    one, none = summarize([0.5]), summarize([])
    assert (one.count, one.mean, none.count) == (1, 0.5, 0)
    assert all(map(math.isnan, (one.std, one.low, one.high, none.mean, none.std, none.low)))


# ---- the test of one pair -------------------------------------------------------------------


@pytest.mark.parametrize("count", [6, 9, 17, 50])
@pytest.mark.parametrize("seed", range(5))
def test_without_ties_the_p_value_is_the_exact_one_of_scipy(count: int, seed: int) -> None:
    ours, reference = drawn(count, seed, 0.82), drawn(count, seed + 100)
    expected = wilcoxon(ours, reference, method="exact").pvalue
    assert compare(figures(ours), figures(reference)).p_value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "differences",
    [
        [1, 1, 1, 1, 1],
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


def test_the_normal_approximation_that_is_not_taken_would_find_five_ties_significant() -> None:
    equal = [0.01] * 5
    assert wilcoxon(equal, method="approx").pvalue < 0.05
    assert against_zero(equal).p_value == 2 / 32


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


def test_differences_that_are_one_but_for_binary_rounding_tie() -> None:
    reference = [0.1, 0.2, 0.3, 0.5, 0.7, 0.6, 0.8]
    ours = [0.2, 0.3, 0.4, 0.6, 0.6, 0.6 + 1e-16, 0.1 + 0.7]
    assert len({a - b for a, b in zip(ours, reference, strict=True)}) > 4
    found = compare(figures(ours), figures(reference))
    plain = against_zero([0.1, 0.1, 0.1, 0.1, -0.1, 0, 0])
    assert (found.p_value, found.effect) == (plain.p_value, plain.effect)
    assert found.difference == pytest.approx(plain.difference)


def test_accuracies_of_single_precision_tie_as_the_counts_of_nodes_do() -> None:
    nodes = 610
    right = [(500, 497), (497, 494), (460, 463), (455, 455), (480, 477), (433, 430), (470, 462)]
    ours, theirs = ([float(np.float32(pair[side] / nodes)) for pair in right] for side in (0, 1))
    assert len({abs(a - b) for a, b in zip(ours, theirs, strict=True)}) > 3  # of three sizes
    found = compare(figures(ours), figures(theirs))
    counted = against_zero([a - b for a, b in right])
    assert (found.p_value, found.effect) == (counted.p_value, counted.effect)


def test_the_effect_is_the_balance_of_the_ranks() -> None:
    assert against_zero([1, 2, 3, 4, -5, 6]).effect == pytest.approx((16 - 5) / 21)
    assert against_zero([1, 1, 1, -1]).effect == pytest.approx(0.5)
    assert against_zero([0.1, 0.2, 0.3]).effect == 1
    assert against_zero([-0.1, -0.2, -0.3]).effect == -1
    assert against_zero([0] * 9 + [0.1]).effect == pytest.approx(10 / 55)


def test_difference_and_interval_are_those_of_the_paired_differences() -> None:
    ours, reference = drawn(15, 1), drawn(15, 2)
    found = compare(figures(ours), figures(reference))
    expected = summarize((ours - reference).tolist())
    assert found.difference == pytest.approx((ours - reference).mean())
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    wider = compare(figures(ours), figures(reference), level=0.01)
    expected = summarize((ours - reference).tolist(), confidence=0.99)
    assert (wider.low, wider.high) == pytest.approx((expected.low, expected.high))
    assert wider.low < found.low < found.high < wider.high


@pytest.mark.parametrize("values", [drawn(12, 4), np.array([3, -3, 1, -1, 0, 0, 2])])
def test_swapping_the_sides_mirrors_everything(values: NDArray[np.float64]) -> None:
    zero = dict.fromkeys(figures(values), 0.8)
    one, other = compare(figures(values), zero), compare(zero, figures(values))
    assert other.difference == pytest.approx(-one.difference)
    assert other.effect == pytest.approx(-one.effect)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=1e-12)
    assert (other.count, other.p_value) == (one.count, one.p_value)


def test_splits_are_paired_by_name_in_whatever_order() -> None:
    ours, reference = figures(drawn(12, 1, 0.85)), figures(drawn(12, 2))
    shuffled = dict(random.Random(0).sample([*ours.items()], 12))
    assert [*shuffled] != [*ours]
    assert compare(shuffled, reference) == compare(ours, reference)
    renamed = dict(zip(ours, shuffled.values(), strict=True))
    assert compare(renamed, reference) != compare(ours, reference)


def test_splits_that_only_one_has_are_left_out_even_if_their_figure_is_no_number() -> None:
    ours, reference = figures(drawn(8, 1)), figures(drawn(8, 2))
    found = compare(ours | {"mine": math.nan, "too": 9.0}, {"theirs": math.inf} | reference)
    assert found == compare(ours, reference)
    assert found.count == 8


@pytest.mark.parametrize("num_common", [0, 1])
def test_fewer_than_two_common_splits_say_nothing(num_common: int) -> None:
    reference = dict([*figures(drawn(5)).items()][:num_common]) | {"other": 0.5}
    found = compare(figures(drawn(5, 1)), reference)
    assert (found.count, found.verdict) == (num_common, "too few" if num_common else "unknown")
    rest = (found.difference, found.low, found.high, found.p_value, found.p_adjusted, found.effect)
    assert all(map(math.isnan, rest))


# ---- verdicts -------------------------------------------------------------------------------


def test_a_known_win_is_found_and_named_from_both_sides() -> None:
    better = {split: value + 0.01 for split, value in figures(drawn(10)).items()}
    worse = figures(drawn(10))
    assert compare(better, worse).verdict == "better"
    assert compare(worse, better).verdict == "worse"
    assert compare(better, worse).p_value == 2 / 2**10


@pytest.mark.parametrize(("count", "verdict"), [(2, "too few"), (5, "too few"), (6, "tie")])
def test_methods_that_agree_everywhere_tie_if_the_splits_suffice(count: int, verdict: str) -> None:
    found = compare(figures(drawn(count)), figures(drawn(count)))
    assert (found.difference, found.low, found.high, found.effect) == (0, 0, 0, 0)
    assert (found.p_value, found.verdict) == (1, verdict)


@pytest.mark.parametrize(
    ("count", "level", "verdict"),
    [
        (5, 0.05, "too few"),  # 0.0625
        (6, 0.05, "better"),  # 0.03125
        (6, 0.03125, "too few"),  # not below
        (5, 0.1, "better"),
        (7, 0.01, "too few"),  # 0.015625
        (8, 0.01, "better"),
    ],
)
def test_splits_are_too_few_if_even_winning_all_would_not_do(
    count: int, level: float, verdict: str
) -> None:
    zero = figures([0] * count)
    assert compare(figures(range(1, count + 1)), zero, level=level).verdict == verdict
    mixed = figures([(-1) ** i * i for i in range(1, count + 1)])
    expected = "too few" if verdict == "too few" else "tie"
    assert compare(mixed, zero, level=level).verdict == expected


def test_methods_that_draw_most_of_enough_splits_tie() -> None:
    assert against_zero([1, 2, 3, 4, 5, 0, 0, 0]).verdict == "tie"
    assert against_zero([1, 2, 3, 4, 5, 0]).verdict == "tie"
    assert against_zero([1, 2, 3, 4, 5]).verdict == "too few"
    assert against_zero([1, 2, 3, 4, 5, 6, 0, 0]).verdict == "better"


def test_the_side_is_that_of_the_ranks_even_if_one_split_turns_the_mean() -> None:
    found = against_zero([*range(1, 12), -1000])
    assert found.difference < 0 < found.effect
    assert (found.p_value < 0.05, found.verdict) == (True, "better")
    family = compare_all({"x": figures([*range(1, 12), -1000])}, {"x": figures([0] * 12)})
    assert family == {"x": found}


@pytest.mark.parametrize("decimals", [3, 12], ids=["with ties", "without ties"])
def test_two_equal_methods_are_told_apart_in_about_one_of_twenty_studies(decimals: int) -> None:
    samples = np.random.default_rng(0).normal(0.8, 0.004, size=(2, 600, 10)).round(decimals)
    verdicts = [compare(figures(a), figures(b)).verdict for a, b in zip(*samples, strict=True)]
    wrong = [verdict for verdict in verdicts if verdict in ("better", "worse")]
    assert 0.02 < len(wrong) / len(verdicts) < 0.08


# ---- families -------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    # In order .005 * 4, .01 * 3, .03 * 2, .04 * 1, which may not be less than the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.4, 0.9]) == [1, 1, 1]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([0.3]) == [0.3]
    assert holm([0, 1]) == [0, 1]
    assert holm([]) == []
    found = holm([math.nan, 0.01, 0.04, math.nan, 0.03, 0.005])
    assert [math.isnan(p) for p in found] == [True, False, False, True, False, False]
    assert found[1:3] + found[4:] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert all(map(math.isnan, holm([math.nan, math.nan])))


def test_a_family_is_each_comparison_with_corrected_p_values() -> None:
    shifts = {"far": 0.1, "near": 0.03, "none": 0.0, "behind": -0.1}
    references = {key: figures(drawn(12, seed)) for seed, key in enumerate(shifts, 20)}
    ours = {key: figures(drawn(12, i, 0.8 + shifts[key])) for i, key in enumerate(shifts)}
    found = compare_all(ours, references | {"unused": NO_SPLIT})
    alone = {key: compare(ours[key], references[key]) for key in ours}
    assert [*found] == [*shifts]
    assert [one.p_adjusted for one in found.values()] == holm(
        [one.p_value for one in alone.values()]
    )
    for key, one in found.items():
        same = replace(one, p_adjusted=one.p_value, verdict=alone[key].verdict)
        assert same == alone[key]
    assert (found["far"].verdict, found["behind"].verdict) == ("better", "worse")
    assert (found["near"].verdict, found["none"].verdict) == ("tie", "tie")


def test_what_is_better_alone_may_be_too_little_for_a_family() -> None:
    wins, zero = figures(range(1, 7)), figures([0] * 6)  # p = 0.03125
    assert compare_all({1: wins}, {1: zero})[1].verdict == "better"
    family = compare_all({1: wins, 2: wins}, {1: zero, 2: zero})
    assert {(one.p_adjusted, one.verdict) for one in family.values()} == {(0.0625, "too few")}
    for level, verdict in ((0.0625, "too few"), (0.07, "better")):
        family = compare_all({1: wins, 2: wins}, {1: zero, 2: zero}, level=level)
        assert {one.verdict for one in family.values()} == {verdict}


def test_a_difference_that_a_family_of_enough_splits_does_not_show_is_a_tie() -> None:
    mostly = figures([*range(1, 9), -9, -10])  # ten splits: 2 × 2 / 2¹⁰ is below the level
    zero = figures([0] * 10)
    family = compare_all({1: mostly, 2: mostly}, {1: zero, 2: zero})
    assert {one.verdict for one in family.values()} == {"tie"}
    same = compare_all({1: zero, 2: zero}, {1: zero, 2: zero})
    assert {one.verdict for one in same.values()} == {"tie"}


def test_splits_that_could_show_nothing_in_a_family_are_too_few_whatever_they_say() -> None:
    family = {
        "even": figures([1, -1, 2, -2, 3, -3, 0]),  # p = 1
        "uneven": figures([1, -1, 2, -2, 3, -3, 4]),
        "same": figures([0] * 7),
    }
    found = compare_all(family, dict.fromkeys(family, figures([0] * 7)), level=0.04)
    assert {key: one.verdict for key, one in found.items()} == {
        **{"even": "too few", "uneven": "too few", "same": "tie"}
    }


def test_too_few_and_unknown_stay_so_in_a_family_and_only_unknown_is_not_counted() -> None:
    ours = {"many": range(1, 10), "five": range(1, 6), "none": []}
    found = compare_all(
        {key: figures(values) for key, values in ours.items()},
        {key: figures([0] * 9) for key in ours},
    )
    assert {key: one.verdict for key, one in found.items()} == {
        "many": "better",
        "five": "too few",
        "none": "unknown",
    }
    assert found["many"].p_adjusted == 2 * 2 / 2**9
    assert found["five"].p_adjusted == 2 / 2**5
    assert math.isnan(found["none"].p_adjusted)


def test_a_family_of_equal_methods_seldom_has_any_winner() -> None:
    samples = np.random.default_rng(1).normal(0.8, 0.004, size=(2, 60, 10, 10))
    wrong = 0
    for family in range(60):
        ours, references = (dict(enumerate(map(figures, part[family]))) for part in samples)
        verdicts = {one.verdict for one in compare_all(ours, references).values()}
        wrong += not verdicts.isdisjoint(("better", "worse"))
    assert wrong <= 6  # uncorrected, about 24


# ---- area under the curve -------------------------------------------------------------------


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
    assert auc(scores, positive) == pytest.approx(expected, abs=1e-12)


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    # Of six pairs, four are in order and one ties.
    assert auc([0.9, 0.5, 0.5, 0.7, 0.1], [True, True, False, False, False]) == 4.5 / 6
    assert auc([1, 2, 3], [False, True, True]) == 1
    assert auc([3, 2, 1], [False, True, True]) == 0
    assert auc([-math.inf, math.inf], [False, True]) == 1


def test_the_area_of_many_single_precision_scores_is_not_rounded() -> None:
    # 10⁵ · 10⁵ pairs and sums of ranks of 10¹⁰: beyond what 32 bits hold.
    scores = np.arange(200_000, dtype=np.float32)
    positive = np.arange(200_000) % 2 == 1
    assert auc(scores, positive) == (1e5 + 1) / 2e5


@pytest.mark.parametrize("positive", [[True, True], [False, False], []])
def test_the_area_without_both_classes_is_not_a_number(positive: list[bool]) -> None:
    assert math.isnan(auc([0.1, 0.2][: len(positive)], positive))


# ---- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, True, np.True_, "0.5", None, 1j])
def test_a_figure_that_is_no_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InputError, match=r"`values` .* got .* for 1\."):
        summarize([0.5, value])
    bad = NO_SPLIT | {"b": value}
    with pytest.raises(InputError, match=r"`ours` .* got .* for 'b'\."):
        compare(bad, NO_SPLIT)
    with pytest.raises(InputError, match=r"`reference` .* got .* for 'b'\."):
        compare_all({"x": NO_SPLIT}, {"x": bad})


@pytest.mark.parametrize("share", [0, 1, -0.1, 95, math.nan, True, "0.95", None])
def test_a_confidence_or_level_that_is_no_share_is_refused(share: Any) -> None:
    for name, call in (
        ("confidence", lambda: summarize([1, 2], confidence=share)),
        ("level", lambda: compare({}, {}, level=share)),
        ("level", lambda: compare_all({"x": {}}, {"x": {}}, level=share)),
    ):
        with pytest.raises(InputError, match=f"`{name}` .* between 0 and 1, got "):
            call()


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.inf])
def test_a_p_value_that_is_no_probability_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=f"`p_values` .* got {bad}"):
        holm([0.5, math.nan, bad])


@pytest.mark.parametrize(
    ("scores", "positive", "message"),
    [
        ([0.1, 0.2], [True], r"`scores` .* \(2,\) and \(1,\)"),
        ([[0.1, 0.2]], [[True, False]], r"`scores` .* \(1, 2\) and \(1, 2\)"),
        ([0.1, math.nan], [True, False], "`scores` .* 1 nan"),
    ],
)
def test_scores_without_an_order_are_refused(scores: Any, positive: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        auc(scores, positive)
