from __future__ import annotations

from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.studies.outcome import Outcome
from pamt_lightning.studies.report.figures import write_figures
from pamt_lightning.studies.report.html_report import write_html
from pamt_lightning.studies.study import Study
from tests.studies.made_up import STUDY, SWEEP, failed, outcomes, without

VOID = {"meta", "br", "hr", "img", "link", "input"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><g id="a"/><use href="#a"/></svg>'


def drawn_to(folder: Path, study: Study) -> dict[str, str]:
    """The figures of a study by caption, as the page takes them."""
    return {figure.caption: figure.svg for figure in write_figures(folder, study, outcomes(study))}


class Page(HTMLParser):
    """What is on a page; fails where a tag is not closed or not opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open, f"<{tag}/> outside SVG is no end"
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def said(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag and text.strip()]


def written(
    folder: Path, study: Study = STUDY, runs: list[Outcome] | None = None, **options: Any
) -> str:
    given = {"configurations": {}, "environment": {}, "figures": {}, **options}
    write_html(folder / "r.html", study, outcomes(study) if runs is None else runs, **given)
    return (folder / "r.html").read_text(encoding="utf-8")


def test_the_page_has_title_description_tables_configuration_and_environment(
    tmp_path: Path,
) -> None:
    study = replace(STUDY, description="First.\n\nSecond.", options={"trainer.max_epochs": 500})
    page = Page(
        written(
            tmp_path,
            study,
            configurations={"cora_ml/PAMT": {"model": {"alpha": 0.1, "path": Path("x")}}},
            environment={"python": "3.11", "threads": 1},
            figures={"All means.": SVG},
        )
    )
    assert page.said("title") == page.said("h1") == ["A small study"]
    assert page.said("p")[:2] == ["First.", "Second."]
    assert page.said("h2") == [
        *("Figures", "Results", "Compared with PAMT", "Time", "What is missing"),
        *("Configuration", "Environment"),
    ]
    assert page.said("h2") == page.said("a")  # the contents
    assert page.said("pre") == ["model:\n  alpha: 0.1\n  path: x\n"]
    assert page.said("summary") == ["cora_ml/PAMT"]
    assert page.said("figcaption") == ["All means."]
    facts = dict(zip(page.said("dt"), page.said("dd"), strict=True))
    assert facts["options"] == "trainer.max_epochs = 500"
    assert facts["runs"] == "48 finished, 0 failed, of 48 that the study asks for"
    assert "Tables 3 and 5" in facts["paper's figures"]
    assert {"python", "threads"} <= set(page.said("th"))
    assert {"83.50 ± 2.45", "(paper 86.01)", "tie", "better", "1"} <= set(page.said("span"))


def test_bold_is_where_the_tables_say(tmp_path: Path) -> None:
    text = written(tmp_path)
    # GCN in two results and two verdicts.
    assert text.count('<strong><span class="line">84.50 ± 2.45</span></strong>') == 2
    assert text.count('<strong><span class="line">better</span></strong>') == 2
    assert text.count("<strong>") == 4


def test_what_is_missing_stands_at_the_top_and_in_its_own_section(tmp_path: Path) -> None:
    runs = without(outcomes(STUDY), "cora_ml", "GCN")
    runs = [failed(r, "out of memory") if r.cell.method == "PTS" else r for r in runs]
    text = written(tmp_path, runs=runs)
    page = Page(text)
    assert '<p class="alert">3 of 6 cells are not complete: <a href="#part-' in text
    assert "8 × out of memory" in page.said("span")
    assert {"not run", "failed (8)"} <= set(page.said("span"))
    assert "alert" not in [
        attributes.get("class") for attributes in Page(written(tmp_path)).of("p")
    ]


def test_links_lead_to_what_they_name(tmp_path: Path) -> None:
    text = written(tmp_path, runs=outcomes(STUDY)[1:], environment={"a": 1}, figures={"x": SVG})
    page = Page(text)
    targets = dict(zip([a["id"] for a in page.of("h2")], page.said("h2"), strict=True))
    links = [(a["href"].removeprefix("#"), name) for a, name in
             zip(page.of("a"), page.said("a"), strict=True)]  # fmt: skip
    assert [targets[key].lower() for key, _ in links] == [name.lower() for _, name in links]
    assert links[0][1] == "what is missing"
    assert {a["aria-labelledby"] for a in page.of("section")} == set(targets)


EVIL = "<b>\"'&amp;</script>"


def test_everything_from_data_is_escaped(tmp_path: Path) -> None:
    study = Study(
        EVIL, EVIL, (EVIL,), (EVIL, "PAMT"), (EVIL,), (0,), EVIL, (), EVIL, {EVIL: EVIL}, (EVIL,)
    )
    runs = [
        *(failed(run, EVIL) for run in outcomes(study)),
        *outcomes(replace(study, methods=("<i>",))),
    ]
    text = written(
        tmp_path,
        study,
        runs,
        configurations={EVIL: {EVIL: EVIL}},
        environment={EVIL: EVIL},
        figures={EVIL: SVG},
    )
    page = Page(text)
    assert not {"b", "i", "script"} & {tag for tag, _ in page.tags}
    assert EVIL not in text
    assert page.said("h1") == page.said("figcaption") == page.said("summary") == [EVIL]
    assert EVIL in page.said("th")
    (drawn,) = page.of("svg")
    assert drawn["aria-label"] == EVIL
    regions = [a["aria-label"] for tag, a in page.tags if a.get("role") == "region"]
    assert EVIL in regions


@pytest.mark.parametrize("study", [STUDY, SWEEP], ids=["plain", "sweep"])
def test_the_page_needs_nothing_else(study: Study, tmp_path: Path) -> None:
    drawn = drawn_to(tmp_path, study)
    text = written(tmp_path, study, figures=drawn)
    page = Page(text)
    assert len(page.of("svg")) == len(drawn) == 2
    assert "://" not in text
    assert "@import" not in text
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        for name in ("href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")


def test_ids_of_several_figures_do_not_meet(tmp_path: Path) -> None:
    drawn = drawn_to(tmp_path, STUDY)
    text = written(tmp_path, figures=drawn)
    page = Page(text)
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    # Within a figure matplotlib itself may give the same mark twice.
    alone = [Page(svg[svg.index("<svg") :]) for svg in drawn.values()]
    twice = sum(
        count - 1
        for figure in alone
        for count in Counter(a["id"] for _, a in figure.tags if "id" in a).values()
    )
    assert sum(ids.values()) - len(ids) == twice
    used = {a[name] for _, a in page.tags for name in ("href", "xlink:href") if name in a}
    assert {name.removeprefix("#") for name in used} <= set(ids)
    clips = {a["clip-path"] for _, a in page.tags if "clip-path" in a}
    assert clips
    assert {clip.removeprefix("url(#").removesuffix(")") for clip in clips} <= set(ids)


@pytest.mark.parametrize(
    ("svg", "said"),
    [
        ("<p>no</p>", "got <p>"),
        ("not XML", "must be an SVG text: "),
        ("<svg><script>1</script></svg>", "got a script in it"),
    ],
)
def test_what_is_no_svg_is_refused(svg: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        written(tmp_path, figures={"Means": svg})
    assert "`figures['Means']`" in str(raised.value)
    assert not (tmp_path / "r.html").exists()


def test_the_page_can_be_read_by_all(tmp_path: Path) -> None:
    drawn = drawn_to(tmp_path, STUDY)
    text = written(tmp_path, figures=drawn, environment={"a": 1})
    page = Page(text)
    assert page.of("html") == [{"lang": "en"}]
    assert page.of("meta")[1]["content"] == "width=device-width, initial-scale=1"
    assert all(attributes["scope"] in ("row", "col") for attributes in page.of("th"))
    assert len(page.of("table")) == len(page.of("caption")) == 5
    drawings = page.of("svg")
    assert [attributes["role"] for attributes in drawings] == ["img", "img"]
    assert [attributes["aria-label"] for attributes in drawings] == list(drawn)
    assert all("width" not in attributes for attributes in drawings)
    # A box that scrolls can be reached by the keyboard and has a name.
    boxes = [attributes for attributes in page.of("div") if attributes["class"] == "scroll"]
    assert len(boxes) == 7
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)
    assert len(page.of("main")) == len(page.of("h1")) == len(page.of("nav")) == 1


def test_wide_tables_are_printed_on_a_page_that_lies_on_its_side(tmp_path: Path) -> None:
    many = tuple(round(0.05 * number, 2) for number in range(11))
    study = replace(SWEEP, sweeps=(replace(SWEEP.sweeps[0], values=many),))
    wide = [a.get("class") for a in Page(written(tmp_path, study)).of("section")]
    assert wide == ["wide", "wide", None, None]
    assert "wide" not in [a.get("class") for a in Page(written(tmp_path)).of("section")]


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    pages = []
    for name in ("a", "b"):
        drawn = drawn_to(tmp_path / name, SWEEP)
        pages.append(written(tmp_path / name, SWEEP, figures=drawn))
    assert pages[0] == pages[1]
