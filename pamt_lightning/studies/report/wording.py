"""How figures, options and caveats are worded, alike in tables, plots and reports."""

from __future__ import annotations

import math

from pamt_lightning.studies.analysis import LEVEL, METRIC, Analysis
from pamt_lightning.studies.outcome import Cell, Value
from pamt_lightning.studies.study import Study, Sweep

NONE = "–"
_LONGEST_NAME = 22
_ENOUGH_FOR_INTERVALS = 10  # then 95 % intervals hold the true mean in about 89 % of cases

VERDICTS = {
    "better": "better",
    "worse": "worse",
    "tie": "tie",
    "too few": "too few splits",
    "unknown": "no common splits",
}


def metric_label(analysis: Analysis) -> str:
    """The metric as it is written above a table and on an axis."""
    if analysis.metric != METRIC:
        return f"{analysis.metric} in %"
    return "Test accuracy in %" if analysis.on_test_nodes else "Accuracy on known nodes in %"


def difference_label(
    analysis: Analysis, sweep: Sweep | None = None, dataset: str | None = None
) -> str:
    """What a comparison with the reference shows."""
    label = metric_label(analysis).removesuffix(" in %")
    label = label[:1].lower() + label[1:]
    reference = reference_name(analysis.study, sweep, dataset)
    return f"{label} minus that of {reference} on the same splits, in points"


def reference_name(study: Study, sweep: Sweep | None = None, dataset: str | None = None) -> str:
    """What others are compared with: a method, or in a study of one method a value."""
    if sweep is None or len(study.methods) > 1 or sweep.reference is None:
        return study.reference
    value = None if dataset is None else sweep.reference_for(dataset)
    return "the configured value" if value is None else f"{study.methods[0]}, {point(sweep, value)}"


def name_of(sweep: Sweep) -> str:
    """A swept option, with its symbol if it has one."""
    return f"{sweep.symbol} ({sweep.option})" if sweep.symbol else sweep.option


def point(sweep: Sweep, value: Value) -> str:
    """A value of a swept option, such as ``K = 10``."""
    return f"{sweep.symbol or sweep.option.rsplit('.', 1)[-1]} = {value_text(value)}"


def value_text(value: Value) -> str:
    """A value as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def row_name(analysis: Analysis, cell: Cell) -> str:
    """The method, and the value of the swept option if there is one."""
    for sweep in analysis.study.sweeps:
        if sweep.option == cell.option:
            return f"{cell.method}, {point(sweep, cell.value)}"
    return cell.method


def short_name(name: str) -> str:
    """A name that fits beside a plot; the end of a long one, as that of a file, tells more."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]


def percent(share: float) -> str:
    """A share in percent: 0.8505 -> '85.05'."""
    return NONE if math.isnan(share) else f"{100 * share:.2f}"


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign: -0.0123 -> '−1.23'."""
    return signed(100 * share)


def signed(number: float, digits: int = 2) -> str:
    """A number with its sign, the minus a true one; zero has none."""
    if math.isnan(number):
        return NONE
    text = f"{number:+.{digits}f}".replace("-", "−")
    return text if any(digit in text for digit in "123456789") else text[1:]


def p_text(p_value: float) -> str:
    """A p-value: '0.012', or '< 0.001'."""
    if math.isnan(p_value):
        return NONE
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def design(analysis: Analysis) -> str:
    """The number of splits and initialisations, in words."""
    splits, inits = len(analysis.study.splits), len(analysis.study.inits)
    text = counted(splits, "split")
    return text if inits == 1 else f"{text}, each averaged over {inits} initialisations"


def bold_note(analysis: Analysis) -> str:
    """What bold means."""
    reference = analysis.study.reference
    return (
        f"Bold: shown to be better than {reference} by the paired comparison, and {reference} "
        "itself only where it was shown to be better than all others. A larger mean alone is "
        "never bold."
    )


def interval_note(analysis: Analysis) -> tuple[str, ...]:
    """That intervals of few splits are too narrow, where there are such."""
    counts = [result.summary.count for result in analysis.results.values()]
    if not any(1 < count < _ENOUGH_FOR_INTERVALS for count in counts):
        return ()
    return (
        f"Intervals of fewer than {_ENOUGH_FOR_INTERVALS} splits are too narrow: they never reach "
        "beyond the least and the largest of the splits.",
    )


def comparison_notes(analysis: Analysis, option: str | None) -> tuple[str, ...]:
    """What the columns of a comparison mean, and whether it could have shown anything.

    Args:
        analysis: The study.
        option: The swept option of the comparisons; none outside a sweep.
    """
    families: dict[str, list[int]] = {}
    for cell, result in analysis.results.items():
        found = result.comparison
        if found is not None and cell.option == option and not math.isnan(found.p_value):
            table = "the study" if option is None else cell.dataset
            families.setdefault(table, []).append(found.count)
    sizes = ", ".join(f"{len(counts)} of {table}" for table, counts in families.items())
    notes = [
        "Adjusted p: two-sided Wilcoxon signed-rank test, after Holm's correction for all "
        f"comparisons{' of a table' if option else ''} ({sizes or 'none'}); the intervals are not "
        "corrected. Effect: rank-biserial correlation, 1 if the method wins on all splits, −1 if "
        f"on none. Verdict: better or worse if the adjusted p is below {LEVEL}; tie: no difference "
        "was shown, which does not mean that there is none."
    ]
    for table, counts in families.items():
        if len(counts) * 2 * 0.5 ** max(counts) >= LEVEL:
            sizes = f"{counted(len(counts), 'comparison')} and {counted(max(counts), 'split')}"
            notes.append(
                f"With {sizes} no adjusted p of {table} can be below {LEVEL}, however large the "
                "difference: too few splits."
            )
    return tuple(notes)


def noise_notes(analysis: Analysis, sweep: Sweep) -> tuple[str, ...]:
    """How near structure noise came to the share that was asked for; nothing in other sweeps."""
    misses = [
        abs(run.metrics["structure_noise"] - float(run.cell.value))
        for run in analysis.outcomes
        if run.cell.option == sweep.option == "data.structure_noise"
        and run.cell.value is not None
        and "structure_noise" in run.metrics
    ]
    if not misses:
        return ()
    return (
        f"The share that was reached differs from the one asked for by at most {max(misses):.6f}, "
        f"over {counted(len(misses), 'run')}.",
    )


def counted(number: int, what: str) -> str:
    """A number of things: '1 split', '2 splits'."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
