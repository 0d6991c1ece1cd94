"""Which column of a table holds what: named by the user, or recognised by a common spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pamt_lightning.errors import InputError, did_you_mean

SPELLINGS = {
    "id": ("id", "node_id", "node", "nodeid"),
    "label": ("label", "class", "y", "category", "target", "labels"),
    "source": ("source", "src", "from", "u", "source_id", "node1"),
    "target": ("target", "dst", "to", "v", "target_id", "node2"),
    "weight": ("weight", "w", "weights", "edge_weight"),
}
_KINDS = ("number", "category", "text", "date")
_SKIP = "skip"


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
    return next(iter(_spelled(role, names)), None)


def _spelled(role: str, names: Iterable[str]) -> list[str]:
    """The columns that look like that role; `y` beside `x` is a coordinate, not a label."""
    by_key: dict[str, str] = {}
    for name in names:
        by_key.setdefault(re.sub(r"[\s-]", "_", name.strip().lower()), name)
    found = [each for each in SPELLINGS[role] if each in by_key]
    return [by_key[each] for each in found if not (each == "y" and "x" in by_key)]


def other_labels(columns: Sequence[str], label: str | None) -> list[str]:
    """What looks like a label too, and as an attribute would give the labels away."""
    found = [name for name in _spelled("label", columns) if name != label]
    return found if label is not None else []


@dataclass(frozen=True)
class Columns:
    """Which columns of the user's tables hold what.

    Attributes:
        roles: The column for a role: ``id``, ``label``, ``source``, ``target`` or ``weight``.
        kinds: What an attribute is: ``number``, ``category``, ``text`` or ``date``.
        skipped: Attributes that are not used.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> Columns:
        """Read ``id=node_id,label=type,category=zip,skip=name``.

        >>> Columns.parse("id=node_id,category=zip").kinds
        {'zip': 'category'}
        """
        roles: dict[str, str] = {}
        kinds: dict[str, str] = {}
        skipped = []
        for part in filter(None, (each.strip() for each in (text or "").split(","))):
            role, equals, name = (each.strip() for each in part.partition("="))
            if role not in (*SPELLINGS, *_KINDS, _SKIP) or not equals or not name:
                known = ", ".join((*SPELLINGS, *_KINDS, _SKIP))
                raise InputError(
                    f"`columns` must be ROLE=NAME,… with the roles {known}; got {part!r}."
                    f"{did_you_mean(role, (*SPELLINGS, *_KINDS, _SKIP))}"
                )
            if role in SPELLINGS:
                roles[role] = name
            elif role == _SKIP:
                skipped.append(name)
            else:
                kinds[name] = role
        return cls(roles, kinds, tuple(skipped))

    def find(self, role: str, columns: Iterable[object], table: str) -> str | None:
        """The column for a role; see `find_column`."""
        return find_column(role, columns, self.roles.get(role), table)

    def check_kinds(self, columns: Sequence[str], table: str) -> None:
        """Refuse a kind of a column that is not there."""
        for name, kind in self.kinds.items():
            if kind not in _KINDS:
                known = ", ".join(_KINDS)
                raise InputError(f"the kind of a column must be one of {known}, got {kind!r}.")
            find_column(kind, columns, name, table)
        for name in self.skipped:
            find_column(_SKIP, columns, name, table)
