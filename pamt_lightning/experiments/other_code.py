"""Runs that another version of the code computed, for a report that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pamt_lightning.experiments.expand import Run
from pamt_lightning.experiments.fingerprint import digest
from pamt_lightning.experiments.store import Store

_Rows = dict[str, dict[str, Any]]


def known_rows(runs: Sequence[Run], store: Store, *, any_code: bool) -> _Rows:
    """What the store has of the runs, by their ids.

    Args:
        runs: What is wanted.
        store: Where it may lie.
        any_code: Whether a run that this version of the code has not done may be answered by one
            that another version has, of the same command, data and configuration. Of several the
            newest is taken; it is marked ``other_code``.
    """
    rows = store.rows()
    if not any_code:
        return rows
    context = store.context()
    others: _Rows = {}
    for row in rows.values():  # in the order in which they were written
        config = context.get(str(row.get("config")))
        if row.get("error") is None and isinstance(config, Mapping):
            others[_without_code(config, row.get("args", ()))] = row
    for run in runs:
        other = others.get(_without_code(run.config, run.args))
        if other is not None and rows.get(run.run_id, {"error": "not run"}).get("error"):
            rows[run.run_id] = {**other, "other_code": True}
    return rows


def _without_code(config: Mapping[str, Any], args: Sequence[str]) -> str:
    kept = {name: value for name, value in config.items() if name != "code"}
    return digest([kept, list(args)])
