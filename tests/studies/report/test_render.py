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

from pamt_lightning.errors import InputError
from pamt_lightning.studies.analysis import analyse
from pamt_lightning.studies.outcome import Cell, Outcome
from pamt_lightning.studies.report import render
from pamt_lightning.studies.report.figures import Drawing, draw
from pamt_lightning.studies.report.render import (
    Finished,
    html_text,
    markdown_text,
    runs_csv,
    table_csv,
    write_reports,
    write_summary,
)
from pamt_lightning.studies.study import Study
from tests.studies.made_up import SPLITS, STUDY, SWEEP, failed, outcomes, without

PLAIN = replace(SWEEP, sweeps=(), name="plain")
ALPHA = replace(SWEEP.sweeps[0], option="model.alpha", symbol="α")


def reported(folder: Path, study: Study, runs: list[Outcome] | None = None) -> str:
    found = outcomes(study) if runs is None else runs
    return write_reports(study, found, folder, configurations={}, environment={})


# Markdown


def markdown(study: Study, runs: list[Outcome] | None = None) -> str:
    analysis = analyse(study, outcomes(study) if runs is None else runs)
    return markdown_text(analysis, draw(analysis))


def test_markdown_has_title_description_figures_and_all_sections() -> None:
    text = markdown(replace(STUDY, description="What it is for."))
    start = "# A small study\n\nWhat it is for.\n\n![Test accuracy in %: means with 95 % bootstrap"
    assert text.startswith(start)
    assert re.findall("^## (.+)", text, re.MULTILINE) == [
        *("Results", "Compared with PAMT", "Time", "Missing runs")
    ]
    assert (
        "\n\n| method | cora_ml | citeseer |\n|---|---|---|\n"
        "| GCN | **84.50 ± 2.45** [83.00, 86.00] (paper 82.90) | **84.50"
    ) in text
    assert "\n\n\n" not in text
    assert text.endswith(".\n")


HELD_OUT = [replace(run, tested_on="held-out nodes") for run in outcomes(STUDY)]
OTHER = [replace(run, other_version=run.cell.method == "GCN") for run in outcomes(STUDY)]
FEWER = [run for run in outcomes(STUDY) if run.cell != Cell("cora_ml", "GCN")]
FEWER += [run for run in outcomes(STUDY)[:5] if run.cell == Cell("cora_ml", "GCN")]
EDGES = [replace(r, metrics={**r.metrics, "mask_auc_planted": 0.9}) for r in outcomes(SWEEP)]
CHOSEN = [replace(run, chosen="mask") for run in outcomes(STUDY)]
NOISY = [replace(r, metrics={**r.metrics, "structure_noise": 0.4}) for r in outcomes(SWEEP)]
MINUS = "minus that of PAMT on the same splits, in points"


@pytest.mark.parametrize(
    ("study", "runs", "shown", "absent"),
    [
        (STUDY, None, f"![Test accuracy {MINUS}: means with 95 %", "Part of the study"),
        (STUDY, None, f"cora_ml: test accuracy {MINUS}.", "means are over"),
        (STUDY, None, "in round brackets the paper's mean", "Runs computed under"),
        (STUDY, None, "all comparisons (4 of the study)", "too few splits"),
        (STUDY, None, "Bold: shown to be better than PAMT", "Planted"),
        (STUDY, None, "None: all runs of the study are complete.", "Cells with other runs"),
        (STUDY, HELD_OUT, "Accuracy on held-out nodes in %, mean", "est accuracy"),
        (STUDY, HELD_OUT, f"accuracy on held-out nodes {MINUS}", "paper"),
        (STUDY, OTHER, "Runs computed under another results version: 16.", "None: all runs"),
        (STUDY, FEWER, "means are over 5 to 8 splits.", "None: all runs"),
        (STUDY, CHOSEN, "graphless: an MLP that uses no edges.", "Planted"),
        (replace(STUDY, datasets=("mine",)), None, "Bold", "paper's"),
        (replace(STUDY, methods=("PTS", "PAMT")), None, "never reach beyond", "Bold"),
        (replace(STUDY, inits=(0, 1)), None, "8 splits, each averaged over 2 initialis", "Planted"),
        (replace(STUDY, narrowed="--seeds x"), None, "Part of the study: `--seeds x`.", "Planted"),
        # 7 wins of 7: p = 2 / 2⁷ = 0.0156, and four times that is above 0.05.
        (replace(STUDY, splits=SPLITS[:7]), None, "With 4 comparisons and 7 splits no", "Planted"),
        (
            replace(STUDY, datasets=("mine",), methods=("PTS", "PAMT"), splits=SPLITS[:2]),
            *(None, "With 1 comparison and 2 splits no adjusted p of the study", "Bold"),
        ),
        (SWEEP, None, f"![Test accuracy {MINUS}, by noise (data.structure_noise): means", "paper"),
        (SWEEP, None, "all comparisons of a table (4 of cora_ml)", "requested one"),
        (SWEEP, None, f"cora_ml: test accuracy {MINUS}, by noise (data.s", "An arrow at the edge"),
        (SWEEP, NOISY, "the requested one by at most 0.100000, over 48 runs.", "Planted"),
        (SWEEP, EDGES, "Planted: moved there as structure noise.", "includes the attributes"),
    ],
)
def test_captions_and_notes(
    study: Study, runs: list[Outcome] | None, shown: str, absent: str
) -> None:
    text = markdown(study, runs)
    assert shown in text
    assert absent not in text


@pytest.mark.parametrize(
    ("study", "titles"),
    [
        (replace(STUDY, reference="MLP"), ["Results"]),
        (
            replace(STUDY, further_references=("GCN",)),
            ["Results", "Compared with PAMT", "Compared with GCN"],
        ),
        (replace(SWEEP, methods=("PAMT",)), ["Results by noise (data.structure_noise)"]),
        (
            replace(SWEEP, methods=("PAMT",), sweeps=(replace(ALPHA, reference=0.3),)),
            [
                "Results by α (model.alpha)",
                "Compared with the configured value, by α (model.alpha)",
            ],
        ),
    ],
)
def test_each_reference_that_is_run_has_a_section(study: Study, titles: list[str]) -> None:
    found = re.findall("^## (.+)", markdown(study), re.MULTILINE)
    assert found == [*titles, "Time", "Missing runs"]


@pytest.mark.parametrize(("count", "is_noted"), [(1, False), (2, True), (8, True), (10, False)])
def test_intervals_of_few_splits_are_noted_to_be_too_narrow(count: int, is_noted: bool) -> None:
    study = replace(STUDY, splits=tuple(f"test{number}" for number in range(count)))
    assert ("fewer than 10 splits are too narrow" in markdown(study)) == is_noted


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<b>", r"\<b>"),
        ("*x*", r"\*x\*"),
        ("_x_", r"\_x\_"),
        ("[x](y)", r"[x\](y)"),
        ("&lt;", r"\&lt;"),
        ("two\nlines", "two lines"),
        ("PAMT_0 < 0.1 & [1, 2]", "PAMT_0 < 0.1 & [1, 2]"),
    ],
)
def test_text_is_never_read_as_markdown(name: str, shown: str) -> None:
    study = Study("x", name, (name,), (name, "GCN"), SPLITS, (0,), name, reference=name)
    first, *runs = outcomes(study)
    lines = markdown(study, [failed(first, name), *runs]).splitlines()
    assert {f"# {shown}", shown, f"## Compared with {shown}", f"| method | {shown} |"} <= set(lines)
    assert f"| {shown} | {shown} | n = 7 of 8, 1 failed | 1 × {shown} |" in lines
    assert any(line.startswith(f"![Test accuracy minus that of {shown} on") for line in lines)
    assert any(line.startswith(f"{shown}: test accuracy minus that of {shown}") for line in lines)
    assert any(line.startswith(f"Bold: shown to be better than {shown} by") for line in lines)


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

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open, f"<{tag}/> outside SVG does not close the tag"
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def words(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag and text.strip()]


def html(study: Study = STUDY, runs: list[Outcome] | None = None, **options: Any) -> str:
    analysis = analyse(study, outcomes(study) if runs is None else runs)
    given = {"drawings": [], "configurations": {}, "environment": {}, **options}
    return html_text(analysis, **given)


@pytest.fixture(scope="module")
def figures() -> list[Drawing]:
    return draw(analyse(STUDY, outcomes(STUDY)))


def test_the_page_has_title_description_tables_configuration_and_environment(
    figures: list[Drawing],
) -> None:
    study = replace(STUDY, description="First.\n\nSecond.")
    page = Page(
        html(
            study,
            configurations={"cora_ml/PAMT": {"model": {"alpha": 0.1, "path": Path("x")}}},
            environment={"python": "3.11", "threads": 1},
            drawings=figures,
        )
    )
    assert page.words("title") == page.words("h1") == ["A small study"]
    assert page.words("p")[:2] == ["First.", "Second."]
    assert page.words("h2") == [
        *("Figures", "Results", "Compared with PAMT", "Time", "Missing runs"),
        *("Configuration", "Environment"),
    ]
    assert page.words("h2") == page.words("a")  # the contents
    assert page.words("pre") == ["model:\n  alpha: 0.1\n  path: x\n"]
    assert page.words("summary") == ["cora_ml/PAMT"]
    means, differences = page.words("figcaption")
    assert means.startswith("Test accuracy in %: means with 95 % bootstrap intervals")
    assert differences.startswith("Test accuracy minus that of PAMT on the same splits, in points:")
    facts = dict(zip(page.words("dt"), page.words("dd"), strict=True))
    assert facts["runs"] == "48 finished, 0 failed, of 48"
    assert (facts["python"], facts["threads"]) == ("3.11", "1")
    assert {"83.50 ± 2.45", "(paper 86.01)", "tie", "better"} <= set(page.words("span"))


def test_bold_is_where_the_tables_have_it() -> None:
    text = html()
    # GCN in two results and two verdicts.
    assert text.count('<strong><span class="line">84.50 ± 2.45</span></strong>') == 2
    assert text.count('<strong><span class="line">better</span></strong>') == 2
    assert text.count("<strong>") == 4


def test_missing_runs_stand_at_the_top_and_in_their_own_section() -> None:
    runs = without(outcomes(STUDY), "cora_ml", "GCN")
    runs = [failed(r, "out of memory") if r.cell.method == "PTS" else r for r in runs]
    text = html(runs=runs)
    page = Page(text)
    assert '<p class="alert">3 of 6 cells are incomplete: <a href="#missing-runs">' in text
    assert "8 × out of memory" in page.words("span")
    assert {"not run", "failed (8)"} <= set(page.words("span"))
    assert 'class="alert"' not in html()


def test_links_lead_to_what_they_name(figures: list[Drawing]) -> None:
    text = html(
        runs=outcomes(STUDY)[1:], environment={"a": 1}, configurations={"b": 2}, drawings=figures
    )
    page = Page(text)
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
    text = html(
        study,
        [failed(run, evil) for run in outcomes(study)],
        configurations={evil: {evil: evil}},
        environment={evil: evil},
        drawings=figures[1:],
    )
    page = Page(text)
    assert not {"b", "script"} & {tag for tag, _ in page.tags}
    assert evil not in text
    assert page.words("h1") == page.words("summary") == [evil]
    assert evil in page.words("th")
    (drawn,) = page.of("svg")
    assert f"minus that of {evil} on" in drawn["aria-label"]
    assert page.words("figcaption") == [drawn["aria-label"]]
    labels = [a["aria-label"] for _, a in page.tags if a.get("role") == "region"]
    assert any(label.startswith(f"{evil}: test accuracy minus that of {evil}") for label in labels)


@pytest.mark.parametrize("study", [STUDY, SWEEP], ids=["plain", "sweep"])
def test_the_page_needs_nothing_else(study: Study) -> None:
    drawn = draw(analyse(study, outcomes(study)))
    text = html(study, drawings=drawn)
    page = Page(text)
    assert len(page.of("svg")) == len(drawn) == 2
    assert "://" not in text
    assert "@import" not in text
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        for name in ("href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")


def test_ids_of_several_figures_do_not_collide(figures: list[Drawing]) -> None:
    page = Page(html(drawings=figures))
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    # Within a figure matplotlib itself may give the same mark twice.
    alone = [Page(figure.svg[figure.svg.index("<svg") :]) for figure in figures]
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


def test_the_style_is_for_phones_paper_and_dark_mode() -> None:
    (style,) = Page(html()).words("style")
    for rule in ("overflow-x: auto", "@media print", "prefers-color-scheme: dark"):
        assert rule in style


def test_wide_tables_are_printed_in_landscape_format() -> None:
    many = tuple(round(0.05 * number, 2) for number in range(11))
    study = replace(SWEEP, sweeps=(replace(SWEEP.sweeps[0], values=many),))
    wide = [a.get("class") for a in Page(html(study)).of("section")]
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
        "id": "cora_ml-GCN-0.3-test0-0",
        "dataset": "cora_ml",
        "method": "GCN",
        "option": "data.structure_noise",
        "value": "0.3",
        "split_seed": "test0",
        "init_seed": "0",
        "status": "finished",
        "error": "",
        "version": "this",
        "epochs": "100.0",
        "seconds": "1.0",
        "test_acc": "0.81",
    }
    assert (lines[1]["status"], lines[1]["test_acc"]) == ("failed", "")
    assert lines[1]["error"] == 'it said "no",\nand stopped'
    assert (lines[2]["version"], lines[2]["test_acc"], lines[2]["epochs"]) == ("other", "nan", "")
    assert runs_csv([]).startswith("id,dataset,method,")


def test_each_cell_is_a_line_with_all_statistics() -> None:
    runs = without(outcomes(STUDY), "citeseer", "PTS")
    lines = lines_of(table_csv(analyse(STUDY, runs)))
    assert [(line["dataset"], line["method"]) for line in lines] == [
        (dataset, method) for dataset in STUDY.datasets for method in STUDY.methods
    ]
    gcn, _, pamt, _, pts, _ = lines
    assert (gcn["mean"], gcn["std"], gcn["splits"]) == ("84.5", "2.44949", "8")
    assert (gcn["paper_mean"], gcn["paper_std"]) == ("82.9", "0.41")
    assert (gcn["difference"], gcn["difference_low"], gcn["effect"]) == ("1.0", "1.0", "1.0")
    assert (gcn["p_value"], gcn["p_adjusted"]) == ("0.0078125", "0.0234375")  # × 3
    assert (gcn["verdict"], gcn["reference"], gcn["common_splits"]) == ("better", "PAMT", "8")
    assert (gcn["option"], gcn["value"], gcn["metric"]) == ("", "", "test_acc")
    assert pamt["verdict"] == pamt["difference"] == pamt["reference"] == ""
    assert (pts["missing"], pts["mean"], pts["splits"]) == ("not run", "", "0")
    assert (pts["splits_asked"], pts["runs_asked"], pts["runs_finished"]) == ("8", "8", "0")


def test_the_papers_accuracy_does_not_stand_beside_a_sweep() -> None:
    lines = lines_of(table_csv(analyse(SWEEP, outcomes(SWEEP))))
    assert {line["paper_mean"] for line in lines} == {""}
    assert {(line["option"], line["value"]) for line in lines} == {
        ("data.structure_noise", "0.3"),
        ("data.structure_noise", "0.5"),
    }


def test_each_cell_is_a_line_for_each_reference() -> None:
    study = replace(STUDY, further_references=("GCN",))
    lines = lines_of(table_csv(analyse(study, outcomes(study))))
    assert [line["reference"] for line in lines] == [
        *(["PAMT", "PAMT", ""] * 2),
        *(["", "GCN", "GCN"] * 2),
    ]
    one = replace(SWEEP, methods=("PAMT",), sweeps=(replace(SWEEP.sweeps[0], reference=0.3),))
    lines = lines_of(table_csv(analyse(one, outcomes(one))))
    assert [line["reference"] for line in lines] == ["", "0.3"]


# Files


def test_all_reports_are_written_and_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    text = reported(tmp_path / "a", STUDY)
    reported(tmp_path / "b", STUDY)
    files = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert set(files) == {
        *("results.md", "report.html", "runs.csv", "table.csv"),
        *("results.svg", "differences.svg"),
    }
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    assert files["results.md"].decode() == text
    drawn = draw(analyse(STUDY, outcomes(STUDY)))
    captions = Page(files["report.html"].decode()).words("figcaption")
    named = [(text, f"{figure.name}.svg") for text, figure in zip(captions, drawn, strict=True)]
    assert re.findall(r"^!\[(.+)\]\(<(.+)>\)$", text, re.MULTILINE) == named
    for figure in drawn:
        assert files[f"{figure.name}.svg"].decode() == figure.svg


def test_without_matplotlib_there_are_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "plots_available", lambda: False)
    assert "![" not in reported(tmp_path, STUDY)
    assert not list(tmp_path.glob("*.svg"))
    assert "<svg" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file"):
        reported(tmp_path / "file", STUDY)


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        (SWEEP, replace(SWEEP, sweeps=(ALPHA,)), {"sweep-model-alpha", "differences-model-alpha"}),
        (SWEEP, PLAIN, {"results", "differences"}),
        (PLAIN, replace(PLAIN, splits=SPLITS[:1]), {"results"}),
    ],
    ids=["another sweep", "no sweep", "no differences"],
)
def test_figures_of_an_earlier_state_are_removed(
    first: Study, then: Study, expected: set[str], tmp_path: Path
) -> None:
    reported(tmp_path, first)
    (tmp_path / "results.png").touch()  # of an earlier version
    reported(tmp_path, then)
    found = {file.name for file in tmp_path.iterdir() if file.suffix in (".svg", ".png")}
    assert found == {f"{name}.svg" for name in expected}


def test_other_files_stay(tmp_path: Path) -> None:
    others = {"own.svg", "own.png", "results-of-mine.svg", "sweep-notes.txt", "old-sweep-a.svg"}
    for name in others:
        (tmp_path / name).write_text("mine")
    reported(tmp_path, PLAIN)
    for name in others:
        assert (tmp_path / name).read_text() == "mine"


# Summary


def summary(folder: Path, finished: list[Finished], environment: dict[str, Any]) -> str:
    path = folder / "docs" / "all.md"
    runs = folder / "r" / "runs.jsonl"
    write_summary(path, finished, "pamt study x", runs=runs, environment=environment)
    return path.read_text(encoding="utf-8")


def test_a_summary_has_the_tables_of_all_studies_with_links(tmp_path: Path) -> None:
    finished = []
    for study in (STUDY, PLAIN):
        text = reported(tmp_path / "r" / study.name, study)
        runs = outcomes(study)
        finished.append(Finished(study, [*runs, runs[0]], len(runs), text))
    (tmp_path / "r" / "runs.jsonl").touch()
    text = summary(tmp_path, finished, {"python": "3.11", "threads": 1})
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
    about = summary(tmp_path, [Finished(STUDY, runs, 48, "")], {}).split("\n\n")[1]
    assert "**Not all runs are done**: small 47 of 48. The tables" in about
    assert "**Computed under another results version: 1 run.**" in about
    assert "Computed with" not in about
