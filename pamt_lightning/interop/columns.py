"""Which column of a table holds what: named by the user, or recognised by a common spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pamt_lightning.errors import InputError, did_you_mean

SPELLINGS = {
    "id": ("id", "node_id", "node", "nodeid"),
    "label": ("label", "class", "y", "category", "target", "labels"),
    "source": ("source", "src", "from", "u", "source_id", "node1"),
    "target": ("target", "dst", "to", "v", "target_id", "node2"),
    "weight": ("weight", "w", "weights", "edge_weight"),
}


def find_column(
    role: str, columns: Iterable[object], given: str | None = None, table: str = "the table"
) -> str | None:
    """The column that the user named, or the first common spelling among the columns.

    Capitals, spaces and hyphens do not matter for a spelling; a given name must be exact.
    """
    names = [str(name) for name in columns]
    if given is not None:
        if given not in names:
            hint = did_you_mean(given, names) or f" Its columns: {', '.join(names[:20])}."
            raise InputError(f"{table} has no column {given!r} for `{role}`.{hint}")
        return given
    by_key: dict[str, str] = {}
    for name in names:
        by_key.setdefault(re.sub(r"[\s-]", "_", name.strip().lower()), name)
    return next((by_key[each] for each in SPELLINGS[role] if each in by_key), None)


def parse_columns(text: str) -> dict[str, str]:
    """Names of columns by role from ``id=node_id,label=type``.

    >>> parse_columns("id=node_id,label=type")
    {'id': 'node_id', 'label': 'type'}
    """
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        role, equals, name = (each.strip() for each in part.partition("="))
        if role not in SPELLINGS or not equals or not name:
            roles = ", ".join(SPELLINGS)
            raise InputError(
                f"columns are given as ROLE=NAME,…, with the roles {roles}; got {part!r}."
                f"{did_you_mean(role, SPELLINGS)}"
            )
        found[role] = name
    return found
