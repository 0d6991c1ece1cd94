from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pamt_lightning.studies.report.fields import Entry
from pamt_lightning.studies.report.markdown import markdown_report, markdown_table
from pamt_lightning.studies.report.tables import Table
from pamt_lightning.studies.report.wording import p_text, percent, points, signed, value_text
from tests.studies.made_up import STUDY, outcomes


def test_numbers_are_written_with_true_signs_and_without_a_negative_zero() -> None:
    assert [points(share) for share in (0.0123, -0.0123, -0.00001, math.nan)] == [
        "+1.23",
        "−1.23",
        "0.00",
        "–",
    ]
    assert signed(-17.96, 1) == "−18.0"
    assert [percent(0.8505), percent(math.nan)] == ["85.05", "–"]
    assert [p_text(p) for p in (0.0004, 0.012, 1.0, math.nan)] == ["< 0.001", "0.012", "1.000", "–"]
    values = (0.3, 10, True, None, "sym", 1e-05)
    assert [value_text(value) for value in values] == ["0.3", "10", "true", "none", "sym", "1e-05"]


def test_a_table_is_set_in_markdown() -> None:
    first = Entry(("1.00", "[0.50, 1.50]"), "n = 7 of 20", strong=True)
    rows = (("PAMT_0", (first, Entry(("2",)))),)
    table = Table("A caption.", ("method", "a", "b"), rows, ("A note.",))
    assert markdown_table(table) == (
        "A caption.\n\n"
        "| method | a | b |\n|---|---|---|\n"
        "| PAMT_0 | **1.00** [0.50, 1.50]; n = 7 of 20 | 2 |\n\n"
        "A note."
    )


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
def test_names_are_never_read_as_markup(name: str, shown: str) -> None:
    table = Table("", ("method",), ((name, ()),))
    assert f"| {shown} |" in markdown_table(table)


def test_a_part_of_a_study_says_so() -> None:
    study = replace(STUDY, narrowed="--seeds test8")
    said = "Not the whole study: `--seeds test8`."
    assert said in markdown_report(study, outcomes(study))
    assert "Not the whole study" not in markdown_report(STUDY, outcomes(STUDY))


def test_the_report_has_title_description_pictures_and_all_sections() -> None:
    study = replace(STUDY, description="What it is for.")
    report = markdown_report(study, outcomes(study), images={"All means": "results.svg"})
    assert report.startswith("# A small study\n\nWhat it is for.\n\n![All means](<results.svg>)\n")
    headings = [line for line in report.splitlines() if line.startswith("## ")]
    assert headings == ["## Results", "## Compared with PAMT", "## Time", "## What is missing"]
    assert report.count("A larger mean alone is never bold.") == 1
    assert report.endswith("\n")
    assert report == markdown_report(study, outcomes(study), images={"All means": "results.svg"})
