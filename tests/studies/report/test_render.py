from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.studies.report import render
from pamt_lightning.studies.report.figures import Drawing, draw
from pamt_lightning.studies.report.render import (
    PAGE,
    RESULTS,
    StudyReport,
    runs_csv,
    study_text,
    table_csv,
    write_reports,
    write_summary,
)
from pamt_lightning.studies.study import Outcome, Study
from tests.studies.made_up import (
    NOISE,
    SPLITS,
    STUDY,
    SWEEP,
    analysed,
    failed,
    outcomes,
    with_metrics,
    without,
)

PLAIN = replace(SWEEP, sweeps=(), name="plain")
ALPHA = replace(NOISE, option="model.alpha", symbol="α")


def reported(folder: Path, study: Study = STUDY) -> str:
    return write_reports(study, outcomes(study), folder, configurations={}, environment={})


# Markdown


def markdown(study: Study = STUDY, runs: list[Outcome] | None = None, **changes: Any) -> str:
    analysis = analysed(study, runs, **changes)
    return study_text(RESULTS, analysis, draw(analysis))


def sections(text: str) -> list[str]:
    return re.findall("^## (.+)", text, re.MULTILINE)


def test_markdown_has_title_description_figures_and_all_sections() -> None:
    text = markdown(title="A small\nstudy", description="What it is for.", narrowed="--x y")
    start = "# A small study (part: --x y)\n\nWhat it is for.\n\n![Test accuracy in %"
    assert text.startswith(start)
    assert sections(text) == ["Results", "Compared with PAMT", "Time", "Missing runs"]
    assert (
        "\n\n| method | cora_ml | citeseer |\n|---|---|---|\n"
        "| GCN | **84.50 ± 2.45** [83.00, 86.00] (paper 82.90) | **84.50"
    ) in text
    assert "\n\n\n" not in text
    assert text.endswith(".\n")


HELD_OUT = [replace(run, tested_on="held-out nodes") for run in outcomes(STUDY)]
OTHER = [replace(run, other_version=run.cell.method == "GCN") for run in outcomes(STUDY)]
FEWER = [*without(outcomes(STUDY), "cora_ml", "GCN"), *outcomes(STUDY)[:5]]
EDGES = [with_metrics(run, mask_auc_planted=0.9) for run in outcomes(SWEEP)]
POOLED = [replace(run, views={"graph": 0.5, "hops": 0.3}) for run in outcomes(STUDY)]
CHOSEN = [replace(run, chosen="mask") for run in outcomes(STUDY)]
NOISY = [with_metrics(run, structure_noise=0.4) for run in outcomes(SWEEP)]
TEN = tuple(f"test{number}" for number in range(10))
FEW: Any = {"datasets": ("mine",), "methods": ("PTS", "PAMT"), "splits": TEN[:2]}
MINUS = "minus that of PAMT on the same splits, in points"
BY = "by noise (data.structure_noise)"


@pytest.mark.parametrize(
    ("study", "runs", "shown", "absent"),
    [
        (STUDY, None, f"![Test accuracy {MINUS}: means", "part: | Planted | means are over"),
        (STUDY, None, f"cora_ml: test accuracy {MINUS}.", "another results version"),
        (STUDY, None, "the paper's mean | (4 of the study) | Bold | are complete.", "too few"),
        (STUDY, HELD_OUT, "Accuracy on held-out nodes in %, mean", "est accuracy | paper"),
        (STUDY, OTHER, "another results version: 16.", "are complete"),
        (STUDY, FEWER, "means are over 5 to 8 splits.", "are complete"),
        (STUDY, CHOSEN, "propagated over the mask", "Planted | in the pool"),
        (STUDY, POOLED, "## Weights of the views in the pool | Views by how far", "Chosen inf"),
        (replace(STUDY, methods=("PTS", "PAMT")), None, "too narrow", "Bold"),
        (replace(STUDY, splits=TEN), None, "over 10 splits;", "too narrow"),
        (replace(STUDY, inits=(0, 1)), None, "8 splits, each averaged over 2 init", "Planted"),
        # 7 wins of 7: p = 2 / 2⁷ = 0.0156, and four times that is above 0.05.
        (replace(STUDY, splits=TEN[:7]), None, "With 4 comparisons and 7 splits no", "Planted"),
        (replace(STUDY, **FEW), None, "With 1 comparison and 2 splits no", "Bold | paper's"),
        (SWEEP, None, f"![Test accuracy {MINUS}, {BY}: means", "paper | An arrow at the edge"),
        (SWEEP, None, "comparisons of a table (4 of cora_ml)", "(4 of the study) | requested one"),
        (SWEEP, NOISY, "the requested one by at most 0.100000, over 48 runs.", "Planted"),
        (SWEEP, EDGES, "Planted: moved there as structure noise.", "in the pool"),
    ],
)
def test_captions_and_notes(
    study: Study, runs: list[Outcome] | None, shown: str, absent: str
) -> None:
    text = markdown(study, runs)
    assert all(part in text for part in shown.split(" | "))
    assert not any(part in text for part in absent.split(" | "))


def test_the_note_on_pools_names_the_views_of_the_method() -> None:
    from pamt_lightning.methods.pamt_plus import VIEWS

    note = markdown(STUDY, POOLED).partition("Views by how far")[2].partition("Views that")[0]
    words = set(re.findall(r"\w+", note))
    assert words >= set(VIEWS)
    assert {word for word in words if "_" in word} <= set(VIEWS)


@pytest.mark.parametrize(
    ("study", "titles"),
    [
        (replace(STUDY, reference="MLP"), "Results"),
        (
            replace(STUDY, further_references=("GCN",)),
            "Results; Compared with PAMT; Compared with GCN",
        ),
        (replace(SWEEP, methods=("PAMT",)), "Results by noise (data.structure_noise)"),
        (
            replace(SWEEP, methods=("PAMT",), sweeps=(replace(ALPHA, reference=0.3),)),
            "Results by α (model.alpha); Compared with the configured value, by α (model.alpha)",
        ),
    ],
)
def test_each_reference_that_is_run_has_a_section(study: Study, titles: str) -> None:
    assert sections(markdown(study)) == [*titles.split("; "), "Time", "Missing runs"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<b>", r"\<b>"),
        ("*x*", r"\*x\*"),
        ("_x_", r"\_x\_"),
        ("[x](y)", r"[x\](y)"),
        ("&lt;", r"\&lt;"),
        ("PAMT_0 < 0.1 & [1, 2]", "PAMT_0 < 0.1 & [1, 2]"),
    ],
)
def test_text_is_never_read_as_markdown(name: str, shown: str) -> None:
    study = Study("x", name, (name,), (name, "GCN"), SPLITS, (0,), name, reference=name)
    first, *runs = outcomes(study)
    lines = markdown(study, [failed(first, name), *runs]).splitlines()
    assert {f"# {shown}", shown, f"## Compared with {shown}", f"| method | {shown} |"} <= set(lines)
    assert f"| {shown} | {shown} | n = 7 of 8, 1 failed | 1 × {shown} |" in lines
    for start in (
        f"![Test accuracy minus that of {shown} on",
        f"{shown}: test accuracy minus that of {shown}",
        f"Bold: shown to be better than {shown} by",
    ):
        assert any(line.startswith(start) for line in lines)


# HTML


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
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def words(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag and text.strip()]

    def values(self, *names: str) -> list[str]:
        """All values of attributes."""
        return [a[name] for _, a in self.tags for name in names if name in a]


def html(
    study: Study = STUDY,
    runs: list[Outcome] | None = None,
    drawings: list[Drawing] | None = None,
    **facts: Any,
) -> str:
    facts = {"configurations": {}, "environment": {}, **facts}
    return study_text(PAGE, analysed(study, runs), drawings or [], **facts)


@pytest.fixture(scope="module")
def figures() -> list[Drawing]:
    return draw(analysed())


def test_the_page_has_title_description_tables_configuration_and_environment(
    figures: list[Drawing],
) -> None:
    page = Page(
        html(
            replace(STUDY, description="What it is for.", narrowed="--seeds x"),
            configurations={"cora_ml/PAMT": {"model": {"alpha": 0.1, "path": "x"}}},
            environment={"python": "3.11", "threads": 1},
            drawings=figures,
        )
    )
    assert page.words("title") == page.words("h1") == ["A small study (part: --seeds x)"]
    assert page.words("p")[0] == "What it is for."
    assert page.words("h2") == [
        *("Figures", "Results", "Compared with PAMT", "Time", "Missing runs"),
        *("Configuration", "Environment"),
    ]
    assert page.words("h2") == page.words("a")  # the contents
    assert page.words("pre") == ["model:\n  alpha: 0.1\n  path: x\n"]
    assert page.words("summary") == ["cora_ml/PAMT"]
    means, differences = page.words("figcaption")
    assert means.startswith("Test accuracy in %: means with 95 % bootstrap intervals")
    assert differences.startswith(f"Test accuracy {MINUS}:")
    facts = dict(zip(page.words("dt"), page.words("dd"), strict=True))
    assert facts["runs"] == "48 finished, 0 failed, of 48"
    assert (facts["python"], facts["threads"]) == ("3.11", "1")
    assert {"83.50 ± 2.45", "(paper 86.01)", "tie", "better"} <= set(page.words("span"))


def test_bold_results_and_missing_runs_are_marked() -> None:
    # GCN in two results and two verdicts.
    bold = re.findall('<strong><span class="line">(.*?)</span></strong>', html())
    assert bold == ["84.50 ± 2.45"] * 2 + ["better"] * 2
    runs = without(outcomes(STUDY), "cora_ml", "GCN")
    text = html(runs=[failed(r, "out of memory") if r.cell.method == "PTS" else r for r in runs])
    assert '<p class="alert">3 of 6 cells are incomplete: <a href="#missing-runs">' in text
    assert {"8 × out of memory", "not run", "failed (8)"} <= set(Page(text).words("span"))
    assert 'class="alert"' not in html()


def test_links_lead_to_what_they_name(figures: list[Drawing]) -> None:
    facts: Any = {"environment": {"a": 1}, "configurations": {"b": 2}}
    page = Page(html(runs=outcomes(STUDY)[1:], drawings=figures, **facts))
    targets = dict(zip([a["id"] for a in page.of("h2")], page.words("h2"), strict=True))
    links = [a["href"].removeprefix("#") for a in page.of("a")]
    assert [targets[key].lower() for key in links] == [name.lower() for name in page.words("a")]
    assert (links[0], page.words("a")[0]) == ("missing-runs", "missing runs")
    assert {a["aria-labelledby"] for a in page.of("section")} == set(targets)


def test_everything_from_data_is_escaped(figures: list[Drawing]) -> None:
    evil = "<b>\"'&amp;</script>"
    study = Study(
        evil, evil, (evil,), (evil, "PAMT"), (evil,), (0,), evil, (), evil, {evil: evil}, (evil,)
    )
    study = replace(study, narrowed=evil)
    runs = [failed(run, evil) for run in outcomes(study)]
    facts: Any = {"configurations": {evil: {evil: evil}}, "environment": {evil: evil}}
    text = html(study, runs, figures[1:], **facts)
    page = Page(text)
    assert not {"b", "script"} & {tag for tag, _ in page.tags}
    assert evil not in text
    assert page.words("h1") == [f"{evil} (part: {evil})"]
    assert page.words("summary") == [evil]
    assert evil in page.words("th")
    (drawn,) = page.of("svg")
    assert f"minus that of {evil} on" in drawn["aria-label"]
    assert page.words("figcaption") == [drawn["aria-label"]]
    labels = page.values("aria-label")
    assert any(label.startswith(f"{evil}: test accuracy minus that of {evil}") for label in labels)


@pytest.mark.parametrize("study", [STUDY, SWEEP], ids=["plain", "sweep"])
def test_the_page_needs_nothing_else(study: Study) -> None:
    text = html(study, drawings=draw(analysed(study)))
    page = Page(text)
    assert len(page.of("svg")) == 2
    assert "://" not in text
    assert "@import" not in text
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    names = {name for _, attributes in page.tags for name in attributes}
    assert not [name for name in names if name.startswith("on") or name == "src"]
    assert all(address.startswith("#") for address in page.values("href", "xlink:href"))


def test_ids_of_several_figures_do_not_collide(figures: list[Drawing]) -> None:
    page = Page(html(drawings=figures))
    ids = Counter(page.values("id"))
    # Within a figure matplotlib itself may give the same mark twice.
    alone = [Counter(Page(each.svg[each.svg.index("<svg") :]).values("id")) for each in figures]
    twice = sum(count - 1 for figure in alone for count in figure.values())
    assert sum(ids.values()) - len(ids) == twice
    clips = {clip.removeprefix("url(#").removesuffix(")") for clip in page.values("clip-path")}
    used = {address.removeprefix("#") for address in page.values("href", "xlink:href")}
    assert clips
    assert clips | used <= set(ids)


def test_the_page_is_accessible(figures: list[Drawing]) -> None:
    page = Page(html(drawings=figures))
    assert page.of("html") == [{"lang": "en"}]
    assert page.of("meta")[1]["content"] == "width=device-width, initial-scale=1"
    assert all(attributes["scope"] in ("row", "col") for attributes in page.of("th"))
    assert len(page.of("table")) == len(page.of("caption")) == 4
    drawings = page.of("svg")
    assert [attributes["role"] for attributes in drawings] == ["img", "img"]
    assert [attributes["aria-label"] for attributes in drawings] == page.words("figcaption")
    assert all("width" not in attributes for attributes in drawings)
    # A box that scrolls can be reached by the keyboard and has a name.
    boxes = [attributes for attributes in page.of("div") if attributes["class"] == "scroll"]
    assert len(boxes) == 6
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)
    assert len(page.of("main")) == len(page.of("h1")) == len(page.of("nav")) == 1


def test_wide_tables_are_printed_in_landscape_format() -> None:
    many = replace(NOISE, values=tuple(round(0.05 * number, 2) for number in range(11)))
    wide = [a.get("class") for a in Page(html(replace(SWEEP, sweeps=(many,)))).of("section")]
    assert wide == ["wide", "wide", None, None]
    assert "wide" not in [a.get("class") for a in Page(html()).of("section")]


# CSV


def lines_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_each_run_is_a_line_with_all_its_metrics() -> None:
    good, bad, other = outcomes(SWEEP)[:3]
    bad = failed(bad, 'it said "no",\nand stopped')
    other = replace(other, metrics={"test_acc": float("nan")}, other_version=True)
    lines = lines_of(runs_csv([good, bad, other]))
    assert lines[0] == {
        **{"id": "cora_ml-GCN-0.3-test0-0", "dataset": "cora_ml", "method": "GCN"},
        **{"option": "data.structure_noise", "value": "0.3"},
        **{"split_seed": "test0", "init_seed": "0"},
        **{"status": "finished", "error": "", "version": "this"},
        **{"epochs": "100.0", "seconds": "1.0", "test_acc": "0.81"},
    }
    assert (lines[1]["status"], lines[1]["test_acc"]) == ("failed", "")
    assert lines[1]["error"] == 'it said "no",\nand stopped'
    assert (lines[2]["version"], lines[2]["test_acc"], lines[2]["epochs"]) == ("other", "nan", "")
    assert runs_csv([]).startswith("id,dataset,method,")


def test_each_cell_is_a_line_with_all_statistics() -> None:
    runs = without(outcomes(STUDY), "citeseer", "PTS")
    lines = lines_of(table_csv(analysed(runs=runs)))
    assert [(line["dataset"], line["method"]) for line in lines] == [
        (dataset, method) for dataset in STUDY.datasets for method in STUDY.methods
    ]
    gcn, _, pamt, _, pts, _ = lines
    low, high = float(gcn.pop("low")), float(gcn.pop("high"))
    assert low < 84.5 < high
    assert gcn == {
        **{"dataset": "cora_ml", "method": "GCN", "option": "", "value": "", "metric": "test_acc"},
        **{"missing": "", "splits_asked": "8", "runs_asked": "8"},
        **{"runs_finished": "8", "runs_failed": "0"},
        **{"splits": "8", "mean": "84.5", "std": "2.44949"},
        **{"paper_mean": "82.9", "paper_std": "0.41"},
        **{"reference": "PAMT", "common_splits": "8"},
        **{"difference": "1.0", "difference_low": "1.0", "difference_high": "1.0"},
        **{"p_value": "0.0078125", "p_adjusted": "0.0234375"},  # × 3
        **{"effect": "1.0", "verdict": "better"},
    }
    assert pamt["verdict"] == pamt["difference"] == pamt["reference"] == ""
    assert (pts["missing"], pts["mean"], pts["splits"]) == ("not run", "", "0")


def test_each_cell_is_a_line_for_each_reference() -> None:
    lines = lines_of(table_csv(analysed(further_references=("GCN",))))
    references = ["PAMT", "PAMT", ""] * 2 + ["", "GCN", "GCN"] * 2
    assert [line["reference"] for line in lines] == references
    one = analysed(SWEEP, methods=("PAMT",), sweeps=(replace(NOISE, reference=0.3),))
    assert [line["reference"] for line in lines_of(table_csv(one))] == ["", "0.3"]


# Files


def test_all_reports_are_written_and_the_same_runs_give_the_same_bytes(
    tmp_path: Path, figures: list[Drawing]
) -> None:
    text = reported(tmp_path / "a")
    reported(tmp_path / "b")
    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "a").iterdir()}
    for path in (tmp_path / "b").iterdir():
        assert path.read_text(encoding="utf-8") == files[path.name]
    drawn = {f"{figure.name}.svg": figure.svg for figure in figures}
    assert set(files) == {"results.md", "report.html", "runs.csv", "table.csv", *drawn}
    assert files.items() >= {"results.md": text, **drawn}.items()
    named = zip(Page(files["report.html"]).words("figcaption"), drawn, strict=True)
    assert re.findall(r"^!\[(.+)\]\(<(.+)>\)$", text, re.MULTILINE) == [*named]


def test_without_matplotlib_there_are_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "plots_available", lambda: False)
    assert "![" not in reported(tmp_path)
    assert not list(tmp_path.glob("*.svg"))
    assert "<svg" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_figures_of_an_earlier_state_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    others = {"own.svg", "own.png", "results-of-mine.svg", "sweep-notes.txt", "old-sweep-a.svg"}
    for name in (*others, "results.png"):  # the last is of an earlier version
        (tmp_path / name).write_text("mine")
    for study, expected in (
        (SWEEP, {"sweep-data-structure_noise.svg", "differences-data-structure_noise.svg"}),
        (PLAIN, {"results.svg", "differences.svg"}),
        (replace(PLAIN, splits=SPLITS[:1]), {"results.svg"}),
    ):
        reported(tmp_path, study)
        left = {file.name for file in tmp_path.iterdir() if file.suffix in (".svg", ".png", ".txt")}
        assert left == others | expected
    assert {(tmp_path / name).read_text() for name in others} == {"mine"}


# Summary


def summary(folder: Path, reports: list[StudyReport], **environment: Any) -> str:
    path, runs = folder / "docs" / "all.md", folder / "r" / "runs.jsonl"
    write_summary(path, reports, runs=runs, command="pamt study x", environment=environment)
    return path.read_text(encoding="utf-8")


def test_a_summary_has_the_tables_of_all_studies_with_links(tmp_path: Path) -> None:
    reports = []
    for study in (STUDY, PLAIN):
        text = reported(tmp_path / "r" / study.name, study)
        runs = outcomes(study)
        reports.append(StudyReport(study, [*runs, runs[0]], len(runs), text))
    (tmp_path / "r" / "runs.jsonl").touch()
    text = summary(tmp_path, reports, python="3.11", threads=1)
    title, about, _ = text.split("\n\n", 2)
    assert title == "# Results"
    assert "written by `pamt study x`" in about
    assert "All runs are done: small 48 of 48, plain 24 of 24." in about
    assert about.endswith("Computed with: python 3.11, threads 1.")
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings[:3] == ["# Results", "## A small study", "### Results"]
    assert "## Noise" in headings
    addresses = re.findall(r"\]\(<(.+?)>\)", text)
    assert len(addresses) == 1 + 2 * (2 + 3)
    for address in addresses:
        assert (tmp_path / "docs" / address).is_file(), address
    assert "\n\n\n" not in text


def test_a_summary_counts_missing_runs_and_runs_of_another_version(tmp_path: Path) -> None:
    first, second, *others = outcomes(STUDY)
    runs = [failed(first, "boom"), replace(second, other_version=True), *others]
    about = summary(tmp_path, [StudyReport(STUDY, runs, 48, "")]).split("\n\n")[1]
    assert "**Not all runs are done**: small 47 of 48. The tables" in about
    assert "**Computed under another results version: 1 run.**" in about
    assert "Computed with" not in about
