"""Statistics of a study: bootstrap intervals, paired tests over splits, AUC.

The split is the unit that is drawn at random, so everything here is counted in splits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata, wilcoxon

from pamt_lightning.errors import InputError

K = TypeVar("K", bound=Hashable)
Verdict = Literal["better", "worse", "tie", "too few", "unknown"]

# 0.83 - 0.82 and 0.82 - 0.81 must tie, though they differ in binary and accuracies are float32:
# far above the rounding of float32, far below one node in a million.
_SAME = 2e-7
# Probabilities of n coins are multiples of 2⁻ⁿ: up to here, float64 adds them exactly.
_MAX_EXACT = 50


@dataclass(frozen=True)
class Summary:
    """A metric over the splits; nan where there are too few of them.

    Attributes:
        count: Number of splits.
        mean: Their mean.
        std: Standard deviation between splits (n - 1).
        low: Lower end of the bootstrap interval of the mean.
        high: Upper end.
    """

    count: int
    mean: float
    std: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """One method against another on the same splits; all numbers nan for fewer than two of them.

    Attributes:
        count: Number of splits that both have.
        difference: Mean of ours minus the reference.
        low: Lower end of its bootstrap interval.
        high: Upper end.
        p_value: Of the two-sided Wilcoxon signed-rank test.
        p_adjusted: The same after Holm's correction for all comparisons of the family.
        effect: Matched-pairs rank-biserial correlation: 1 if ours wins all splits, -1
            if it loses all; splits without a difference draw it towards 0.
        verdict: ``better`` or ``worse`` if the adjusted p-value is below the level. ``tie``: no
            difference was shown, which does not mean that there is none. ``too few``: the p-value
            could not be below the level even if one side won all splits.
            ``unknown``: no common splits.
    """

    count: int
    difference: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    effect: float
    verdict: Verdict


def summarize(
    values: Iterable[float], *, confidence: float = 0.95, resamples: int = 10_000
) -> Summary:
    """Mean, standard deviation, and the percentile bootstrap interval of the mean.

    The interval of few splits is too narrow: with ten, 95 % intervals hold the true mean in about
    89 % of cases (see the tests).

    Args:
        values: One value for each split; their order does not matter.
        confidence: Share of the resampled means that the interval holds, between 0 and 1.
        resamples: How many resamples to draw; rounded up to an even number.

    Raises:
        InputError: A value is not a finite number, or the confidence is out of range.
    """
    checked = np.sort(_finite(dict(enumerate(values)), "values"))
    low, high = _interval(checked, confidence, resamples)
    return Summary(
        count=len(checked),
        mean=float(checked.mean()) if len(checked) else math.nan,
        std=float(checked.std(ddof=1)) if len(checked) > 1 else math.nan,
        low=low,
        high=high,
    )


def compare(
    ours: Mapping[str, float], reference: Mapping[str, float], *, level: float = 0.05
) -> Comparison:
    """Compare two methods split by split, as a family of one; see `compare_all` for more.

    Splits without a difference keep their ranks but count for neither side (Pratt, 1959): without
    them, a method that wins one split and equals the other nine would have an effect of 1. The
    p-value is exact, ties included, for up to 50 splits that differ.

    Args:
        ours: A metric by split; the larger, the better.
        reference: The same for the other method; splits that only one has are left out.
        level: The p-value below which a difference counts as shown; the interval holds 1 - level.

    Raises:
        InputError: A value of a common split is not a finite number, or the level is not between
            0 and 1.
    """
    _check_share(level, "level")
    common = [split for split in ours if split in reference]
    our_values = _finite({split: ours[split] for split in common}, "ours")
    their_values = _finite({split: reference[split] for split in common}, "reference")
    if len(common) < 2:
        nan = math.nan
        verdict: Verdict = "too few" if common else "unknown"
        return Comparison(len(common), nan, nan, nan, nan, nan, nan, verdict)
    raw = np.sort(our_values - their_values)
    low, high = _interval(raw, 1 - level)
    differences = _snapped(raw)
    ranks = rankdata(np.abs(differences))
    effect = float((ranks * np.sign(differences)).sum() / ranks.sum())
    p_value = _signed_rank_p(differences, ranks)
    return Comparison(
        count=len(common),
        difference=float(raw.mean()),
        low=low,
        high=high,
        p_value=p_value,
        p_adjusted=p_value,
        effect=effect,
        # Methods that agree on most of enough splits are a tie, not a lack of splits.
        verdict="too few" if 2 * 0.5 ** len(common) >= level else _decide(p_value, effect, level),
    )


def compare_all(
    ours: Mapping[K, Mapping[str, float]],
    references: Mapping[K, Mapping[str, float]],
    *,
    level: float = 0.05,
) -> dict[K, Comparison]:
    """Run `compare` for each key of ``ours`` and correct for the number of comparisons (`holm`).

    Comparisons with too few splits count in the family, those without a p-value do not. Splits are
    also too few if a family of this size could not show even a win on all of them: a difference of
    ten points on seven splits is not a tie.

    Args:
        ours: A metric by split, for each comparison of the family.
        references: What each is compared with; further keys are ignored.
        level: As in `compare`, of adjusted p-values; the intervals are not corrected.

    Raises:
        InputError: As in `compare`.
    """
    found = {key: compare(values, references[key], level=level) for key, values in ours.items()}
    adjusted = holm([one.p_value for one in found.values()])
    size = sum(not math.isnan(one.p_value) for one in found.values())
    for (key, one), p_value in zip([*found.items()], adjusted, strict=True):
        verdict = one.verdict
        if verdict not in ("too few", "unknown"):
            verdict = _decide(p_value, one.effect, level)
        differ = (one.low, one.high) != (0.0, 0.0)  # methods that agree everywhere are a tie
        if verdict == "tie" and differ and size * 2 * 0.5**one.count >= level:
            verdict = "too few"
        found[key] = replace(one, p_adjusted=p_value, verdict=verdict)
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (Holm, 1979), in the order given.

    The i-th smallest of m is multiplied by m - i + 1, and is at least as large as the one before.

    Args:
        p_values: From 0 to 1; nan stays nan and does not count.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if (bad := (p < 0) | (p > 1)).any():
        raise ValueError(f"`p_values` must be numbers from 0 to 1, got {p[bad][0]}.")
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]  # nan sorts last
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(p, math.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return [float(value) for value in adjusted]


def auc(scores: ArrayLike, is_positive: ArrayLike) -> float:
    """Area under the ROC curve: how often a positive scores above a negative; ties count half.

    Args:
        scores: ``[n]`` numbers; the higher, the more likely a positive.
        is_positive: ``[n]`` booleans.

    Returns:
        A share in [0, 1]; nan if there are no positives or no negatives.
    """
    score, positive = np.asarray(scores), np.asarray(is_positive, dtype=np.bool_)
    if score.ndim != 1 or score.shape != positive.shape or np.isnan(score).any():
        raise ValueError(
            "`scores` must be numbers, one for each of `is_positive`, "
            f"got shapes {score.shape} and {positive.shape}, {np.isnan(score).sum()} nan."
        )
    num_positive = int(np.count_nonzero(positive))
    num_pairs = num_positive * (len(score) - num_positive)
    if num_pairs == 0:
        return math.nan
    rank_sum = float(rankdata(score)[positive].sum())
    return (rank_sum - num_positive * (num_positive + 1) / 2) / num_pairs


def _decide(p_value: float, effect: float, level: float) -> Verdict:
    """The verdict on enough splits; the side is that of the tested ranks, not of the mean."""
    if not p_value < level:
        return "tie"
    return "better" if effect > 0 else "worse"


def _snapped(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """The differences, with sizes that differ only by rounding made equal, or zero."""
    size = np.abs(differences)
    order = np.argsort(size, kind="stable")
    is_new = np.diff(size[order], prepend=0.0) > _SAME
    sizes = np.concatenate([[0.0], size[order][is_new]])
    snapped = np.empty_like(size)
    snapped[order] = sizes[np.cumsum(is_new)]
    return np.asarray(np.sign(differences) * snapped)


def _interval(
    values: NDArray[np.float64], confidence: float, resamples: int = 10_000
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of sorted values; nan for fewer than two.

    Not `scipy.stats.bootstrap`, whose interval of -values is not the mirrored interval: each draw
    here comes with its mirror image, so that swapping two methods swaps the ends.
    """
    _check_share(confidence, "confidence")
    count = len(values)
    if count < 2:
        return math.nan, math.nan
    drawn = np.random.default_rng(0).integers(count, size=((resamples + 1) // 2, count))
    means = values[np.concatenate([drawn, count - 1 - drawn])].mean(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _signed_rank_p(differences: NDArray[np.float64], ranks: NDArray[np.float64]) -> float:
    """Two-sided p-value of the sum of ranks of the positive differences; 1 if all are zero.

    Under the null hypothesis the sign of each nonzero difference is a fair coin. SciPy's exact
    test allows no ties, and its normal approximation calls five equal differences significant, so
    the distribution of the rank sum is counted here for up to 50 of them.
    """
    differs = differences != 0
    if not differs.any():
        return 1.0
    if np.count_nonzero(differs) > _MAX_EXACT:
        return float(wilcoxon(differences, zero_method="pratt").pvalue)
    doubled = np.rint(2 * ranks).astype(np.int64)  # ranks of ties may end in a half
    chance = np.zeros(doubled[differs].sum() + 1)
    chance[0] = 1.0
    for rank in doubled[differs]:
        chance[rank:] += chance[:-rank]
        chance /= 2
    found = doubled[differences > 0].sum()
    return min(1.0, 2 * float(min(chance[: found + 1].sum(), chance[found:].sum())))


def _check_share(value: float, name: str) -> None:
    if not (isinstance(value, int | float) and 0 < value < 1):
        raise InputError(f"`{name}` must be a number between 0 and 1, got {value!r}.")


def _finite(values: Mapping[Any, float], name: str) -> NDArray[np.float64]:
    """The values as an array, after a check that each is a finite number."""
    for key, value in values.items():
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if isinstance(value, bool) or not (is_number and math.isfinite(value)):
            raise InputError(f"`{name}` must be finite numbers, got {value!r} for {key!r}.")
    return np.array([*values.values()], dtype=np.float64)
