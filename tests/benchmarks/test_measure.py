from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pamt_lightning.benchmarks.growth import Size
from pamt_lightning.benchmarks.measure import Report, shown_seconds
from pamt_lightning.benchmarks.timing import Row

ROW = Row("pubmed", {"a": 0.5, "b": 1.5}, 3.0, (2.0, 4.0), "hidden 64")
SIZES = [Size(10, 1.0, 1.0, 5e6), Size(100, 1.0, 10.0, 5e6), Size(1000, 10.0, 100.0, 500e6)]


def test_exponents_are_slopes_of_logarithms() -> None:
    found = Report({}, {}, SIZES).exponents()
    assert found["all"]["refresh"] == pytest.approx(1.0)
    assert found["last"] == pytest.approx({"epoch": 1.0, "refresh": 1.0, "memory": 2.0})
    assert Report({}, {}, SIZES[:1]).exponents() == {}


def test_markdown_has_a_table_for_each_part() -> None:
    text = Report({"torch": "2"}, {"trainer": [ROW]}, SIZES[:1]).markdown()
    assert "| pubmed | 500.0 ms | 1.50 s | 3.00 × (2.00–4.00) | hidden 64 |" in text
    assert "| 10 | 1.00 s | 1.00 s | 5 MB |" in text
    assert shown_seconds(0.00123) == "1.23 ms"


def test_files_hold_the_figure_and_valid_json(tmp_path: Path) -> None:
    unknown = Size(10**4, 100.0, 1000.0, math.nan)  # not every system reports its memory
    Report({}, {"fit": [ROW]}, [*SIZES[:2], unknown]).write(tmp_path / "new")
    assert "(growth.svg)" in (tmp_path / "new/benchmark.md").read_text()
    assert "<svg" in (tmp_path / "new/growth.svg").read_text()
    content = json.loads((tmp_path / "new/benchmark.json").read_text())
    assert content["fit"][0]["spread"] == [2.0, 4.0]
    assert content["growth"]["sizes"][2]["memory"] is None
