"""Runs that another version of the code computed, for a report that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pamt_lightning.data.splits import resolve_split_seed
from pamt_lightning.studies.expand import Run
from pamt_lightning.studies.fingerprint import digest
from pamt_lightning.studies.store import Store

_Rows = dict[str, dict[str, Any]]


def known_rows(runs: Sequence[Run], store: Store, *, any_code: bool) -> _Rows:
    """What the store has of the runs, by their ids.

    Args:
        runs: What is wanted.
        store: Where it may lie.
        any_code: Whether a run that this version of the code has not tried may be answered by one
            that another version has done, of the same data, configuration and seeds. Of several the
            newest is taken; it is marked ``other_code``.
    """
    rows = store.rows()
    if not any_code:
        return rows
    context = store.context()
    by_split = {name for run in runs for name in run.split_options}
    others: _Rows = {}
    for row in rows.values():  # in the order in which they were written
        config = context.get(str(row.get("config")))
        if row.get("error") is None and isinstance(config, Mapping):
            seeds = (row.get("split_seed"), row.get("init_seed"))
            others[_without_code(config, seeds, row.get("args", ()), by_split)] = row
    for run in runs:
        if run.run_id not in rows:
            seeds = (run.split_seed, run.init_seed)
            other = others.get(_without_code(run.config, seeds, run.args, by_split))
            if other is not None:
                rows[run.run_id] = {**other, "other_code": True}
    return rows


def _without_code(
    config: Mapping[str, Any], seeds: tuple[Any, ...], args: Sequence[str], by_split: set[str]
) -> str:
    """What a run is but for its code: studies may type the same run in different words."""
    kept = {name: value for name, value in config.items() if name != "code"}
    following = {
        name.removeprefix("--"): value
        for name, value in pairwise(args)
        if name.removeprefix("--") in by_split
    }
    return digest([kept, resolve_split_seed(seeds[0]), seeds[1], following])
