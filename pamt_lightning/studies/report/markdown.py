"""A study's tables as one Markdown text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pamt_lightning.studies.analysis import METRIC, analyse
from pamt_lightning.studies.outcome import Outcome
from pamt_lightning.studies.report.fields import Entry
from pamt_lightning.studies.report.tables import Table, sections
from pamt_lightning.studies.study import Study

# What would be read as markup. Not so `PAMT_0`, `[84.50, 85.69]` and `< 0.001`.
_MARKUP = re.compile(r"[\\|*`~]|<(?!\s)|&(?=#?\w+;)|\](?=[(\[])|(?<!\w)_|_(?!\w)")


def markdown_report(
    study: Study,
    outcomes: Sequence[Outcome],
    *,
    images: Mapping[str, str] | None = None,
    metric: str = METRIC,
) -> str:
    """All tables of a study, with its title and description.

    Args:
        study: The study.
        outcomes: Its runs.
        images: Addresses of pictures by caption, to stand above the tables.
        metric: The metric that is compared.
    """
    parts = [f"# {_escaped(study.title)}"]
    if study.description:
        parts.append(_escaped(study.description))
    if study.narrowed:
        parts.append(f"Not the whole study: `{study.narrowed}`.")
    for caption, address in (images or {}).items():
        parts += [f"![{_escaped(caption)}](<{address}>)", f"*{_escaped(caption)}*"]
    for section in sections(analyse(study, outcomes, metric)):
        parts.append(f"## {_escaped(section.title)}")
        parts += [markdown_table(table) for table in section.tables]
        parts += [_escaped(note) for note in section.notes]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """One table, with its caption above and its notes below."""
    parts = [_escaped(table.caption)]
    if table.rows:
        lines = [_row(_escaped(name) for name in table.header), "|---" * len(table.header) + "|"]
        lines += [_row([_escaped(name), *map(_field, fields)]) for name, fields in table.rows]
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, *map(_escaped, table.notes)])


def _row(fields: Iterable[str]) -> str:
    return f"| {' | '.join(fields)} |"


def _field(entry: Entry) -> str:
    lines = [_escaped(line) for line in entry.lines]
    if entry.strong and lines:
        lines[0] = f"**{lines[0]}**"
    return "; ".join(text for text in (" ".join(lines), _escaped(entry.note)) if text)


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))
