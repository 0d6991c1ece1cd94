"""A study as one HTML file that needs nothing else: no scripts, no other files, no network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import yaml

from pamt_lightning.studies.analysis import METRIC, Analysis, analyse
from pamt_lightning.studies.outcome import Outcome
from pamt_lightning.studies.paper import SOURCE
from pamt_lightning.studies.report.fields import Entry
from pamt_lightning.studies.report.html_style import STYLE
from pamt_lightning.studies.report.tables import MISSING, Section, Table, sections
from pamt_lightning.studies.report.wording import name_of, value_text
from pamt_lightning.studies.study import Study
from pamt_lightning.training.folders import write_whole

_WIDE = 7  # columns; more are printed on a page that lies on its side
_LONG = 40  # characters; longer texts may be broken


class _Part(NamedTuple):
    title: str
    content: str
    wide: bool = False


def write_html(
    path: Path,
    study: Study,
    outcomes: Sequence[Outcome],
    *,
    configurations: Mapping[str, Any],
    environment: Mapping[str, Any],
    figures: Mapping[str, str],
    metric: str = METRIC,
) -> None:
    """Write the report, whole or not at all.

    Args:
        path: The HTML file.
        study: The study.
        outcomes: Its runs.
        configurations: What was run, by name.
        environment: Versions and machine facts.
        figures: SVG texts by caption.
        metric: The metric that is compared.

    Raises:
        ValueError: A figure is not an SVG text.
    """
    text = html_text(analyse(study, outcomes, metric), configurations, environment, figures)
    write_whole(path, lambda file: print(text, end="", file=file))


def html_text(
    analysis: Analysis,
    configurations: Mapping[str, Any],
    environment: Mapping[str, Any],
    figures: Mapping[str, str],
) -> str:
    """The report as text; see `write_html`."""
    study = analysis.study
    parts = [_Part(s.title, _section(s, study), _is_wide(s)) for s in sections(analysis)]
    if figures:
        drawn = (_figure(*item, number) for number, item in enumerate(figures.items()))
        parts.insert(0, _Part("Figures", "".join(drawn)))
    if configurations:
        parts.append(_Part("Configuration", "".join(map(_configuration, configurations.items()))))
    if environment:
        rows = tuple((str(k), (Entry((str(v),)),)) for k, v in environment.items())
        table = Table("Versions and machine.", ("what", "value"), rows)
        parts.append(_Part("Environment", _table(table, study)))
    links = "".join(
        f'<li><a href="#part-{number}">{escape(part.title)}</a></li>'
        for number, part in enumerate(parts)
    )
    body = "".join(
        f'<section{" class=wide" if part.wide else ""} aria-labelledby="part-{number}">'
        f'<h2 id="part-{number}">{escape(part.title)}</h2>\n{part.content}</section>\n'
        for number, part in enumerate(parts)
    )
    missing = [part.title for part in parts].index(MISSING)
    paragraphs = (text for text in re.split(r"\n\s*\n", study.description) if text.strip())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(study.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(study.title)}</h1>"
        f"{''.join(f'<p>{escape(text)}</p>' for text in paragraphs)}</header>\n"
        f"<main>\n{_overview(analysis, f'part-{missing}')}"
        f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n{body}</main>\n</body>\n</html>\n'
    )


def _overview(analysis: Analysis, missing: str) -> str:
    study, results = analysis.study, analysis.results.values()
    asked, finished = sum(r.runs_asked for r in results), sum(r.finished for r in results)
    failed = sum(result.failed for result in results)
    runs = f"{finished:,} finished, {failed:,} failed, of {asked:,} that the study asks for"
    seeds = "seed" if len(study.inits) == 1 else "seeds"
    facts = [
        ("study", study.name),
        ("not the whole study", study.narrowed),
        ("data sets", ", ".join(study.datasets)),
        ("methods", ", ".join(study.methods)),
        ("reference", study.reference),
        *(
            ("varied", f"{name_of(sweep)}: {', '.join(map(value_text, sweep.values))}")
            for sweep in study.sweeps
        ),
        ("splits", f"{len(study.splits)}: {', '.join(study.splits)}"),
        ("initialisations", f"{len(study.inits)}: {seeds} {', '.join(map(str, study.inits))}"),
        ("options", ", ".join(f"{k} = {value_text(v)}" for k, v in study.options.items())),
        ("numbered by split", ", ".join(study.split_options)),
        ("runs", runs),
        ("paper's figures", SOURCE if analysis.beside_paper and not study.sweeps else ""),
    ]
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts if v)
    gaps = sum(bool(result.gap) for result in results)
    alert = (
        f'<p class="alert">{gaps} of {len(results)} cells are not complete: '
        f'<a href="#{missing}">{MISSING.lower()}</a>.</p>\n'
        if gaps
        else ""
    )
    return f"<dl>{rows}</dl>\n{alert}"


def _section(section: Section, study: Study) -> str:
    tables = "".join(_table(table, study) for table in section.tables)
    return f"{tables}{_notes(section.notes)}"


def _is_wide(section: Section) -> bool:
    return any(len(table.header) > _WIDE for table in section.tables)


def _table(table: Table, study: Study) -> str:
    if not table.rows:
        return f"<p>{escape(table.caption)}</p>{_notes(table.notes)}"
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "".join(
        f"<tr{' class=reference' if name == study.reference else ''}>"
        f'<th scope="row">{escape(name)}</th>{"".join(map(_field, fields))}</tr>\n'
        for name, fields in table.rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.caption)}">'
        f'<table><caption><span class="caption">{escape(table.caption)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
        f"{_notes(table.notes)}"
    )


def _field(entry: Entry) -> str:
    lines = [f'<span class="line">{escape(line)}</span>' for line in entry.lines if line]
    if entry.strong and lines:
        lines[0] = f"<strong>{lines[0]}</strong>"
    gap = f'<span class="gap">{escape(entry.note)}</span>' if entry.note else ""
    long = any(len(text) > _LONG for text in (*entry.lines, entry.note))
    return f"<td{' class=text' if long else ''}>{''.join(lines)}{gap}</td>"


def _notes(notes: Iterable[str]) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>' for note in notes)


def _configuration(item: tuple[str, Any]) -> str:
    name, content = item
    plain = json.loads(json.dumps(content, default=str))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>\n"


def _figure(caption: str, svg: str, number: int) -> str:
    return (
        f'<figure><div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f"{_inline(caption, svg, number)}</div>\n"
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def _inline(caption: str, svg: str, number: int) -> str:
    """An SVG text as it may stand inside HTML, its ids unlike those of all other figures."""
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"`figures[{caption!r}]` must be an SVG text: {error}.") from None
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    if names[0] != "svg" or "script" in names:
        what = "a script in it" if names[0] == "svg" else f"<{names[0]}>"
        raise ValueError(f"`figures[{caption!r}]` must be an SVG text without scripts, got {what}.")
    svg = svg[re.search(r"<svg\b", svg).start() :].strip()  # type: ignore[union-attr]
    opening, rest = re.match(r"<svg\b[^>]*>", svg)[0], svg[svg.index(">") + 1 :]  # type: ignore[index]
    opening = re.sub(r'\s(width|height|role|aria-label|xmlns(:\w+)?|version)="[^"]*"', "", opening)
    opening = f'<svg role="img" aria-label="{escape(caption)}"{opening[4:]}'

    def renamed(tag: re.Match[str]) -> str:
        return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{number}-", tag[0])

    return opening + re.sub(r"<[^>]*>", renamed, rest)
