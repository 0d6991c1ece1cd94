from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning.benchmarks import command
from pamt_lightning.benchmarks.clock import Row, against_bound, compare
from pamt_lightning.benchmarks.epochs import PlainLoop
from pamt_lightning.benchmarks.growth import Size, exponent
from pamt_lightning.benchmarks.report import exponents, markdown, shown_ratio, shown_seconds
from pamt_lightning.cli.main import main
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.data.synthetic_options import SyntheticOptions

SMALL = ["--datasets", "synthetic", "--rounds", "2", "--epochs", "2", "--max_edges", "10000"]


def test_every_part_prints_and_writes_its_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = command.configured("synthetic") | {"stopping": {"patience": 2}}
    monkeypatch.setattr(command, "configured", lambda name: short)
    assert main(["benchmark", *SMALL, "--hidden_dim", "4", "--folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    figures = json.loads((tmp_path / "benchmark.json").read_text())
    for part in ("epoch", "trainer", "fit", "refresh", "layer"):
        (row,) = figures[part]
        assert row["what"] == "synthetic"
        assert row["ratio"] > 0
        assert row["spread"][0] <= row["ratio"] <= row["spread"][1]
    assert [row["what"] for row in figures["propagation"]] == [
        "random neighbours",
        "near neighbours",
    ]
    assert figures["propagation"][0]["counts"]["entries"] == 20_000
    (size,) = figures["growth"]["sizes"]
    assert size["edges"] == pytest.approx(10_000, rel=0.25)  # pairs drawn twice count once
    assert size["memory"] > 1e5
    assert figures["environment"]["threads"] == torch.get_num_threads()
    text = (tmp_path / "benchmark.md").read_text()
    assert out == text  # one size is no curve, so there is no picture
    assert "| synthetic |" in text


def test_parts_may_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["trainer", *SMALL, "--hidden_dim", "4", "--threads", "1", "--folder", str(tmp_path)]
    threads = torch.get_num_threads()
    try:
        assert main(["benchmark", *argv]) == 0
    finally:
        torch.set_num_threads(threads)
    figures = json.loads((tmp_path / "benchmark.json").read_text())
    assert figures["environment"]["threads"] == 1
    assert set(figures) == {"environment", "trainer", "growth"}
    assert capsys.readouterr().out.count("## ") == 1


def test_without_what_it_is_compared_with_an_epoch_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "pyg_available", lambda: False)
    assert main(["benchmark", "epoch", *SMALL, "--folder", str(tmp_path / "out")]) == 1
    assert "pip install 'pamt-lightning[benchmark]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_data_that_is_not_there_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAMT_DATA", raising=False)
    monkeypatch.setenv("PAMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    argv = ["layer", "--datasets", "ms_academic", "--folder", str(tmp_path / "out")]
    assert main(["benchmark", *argv]) == 0
    assert "ms_academic is left out: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--rounds", "0"], "--rounds must be 1 or more, got 0."),
        (["--max_edges", "99"], "--max_edges must be 10000 or more, got 99."),
        (["epochs"], "PART must be among epoch, trainer, "),
        (["--datasets", "cora"], "--datasets must be among cora_ml, "),
    ],
)
def test_wrong_options_get_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", *argv]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pamt benchmark: error: {message}")
    assert error.count("\n") == 1


def test_the_ratio_is_the_median_of_those_of_the_rounds() -> None:
    first, second = iter([1.0, 2.0, 4.0]), iter([3.0, 2.0, 8.0])
    row = compare("x", {"a": lambda: next(first), "b": lambda: next(second)}, 3)
    assert row.ratio == 2.0
    assert row.spread == (1.0, 3.0)
    assert dict(row.seconds) == {"a": 2.0, "b": 3.0}


def test_the_bound_is_in_proportion_to_the_bytes() -> None:
    rows = [against_bound("x", lambda: None, count, 5) for count in (1e6, 1e9)]
    assert rows[0].seconds["its bytes"] < 0.1 * rows[1].seconds["its bytes"]


def test_exponents_are_the_slopes_of_logarithms() -> None:
    assert exponent([10, 100, 1000], [2.0, 20.0, 200.0]) == pytest.approx(1.0)
    assert exponent([10, 100], [1.0, 100.0]) == pytest.approx(2.0)
    sizes = [Size(10, 1.0, 1.0, 5.0), Size(100, 1.0, 10.0, 5.0), Size(1000, 10.0, 100.0, 500.0)]
    found = exponents(sizes)
    assert found["all"]["refresh"] == pytest.approx(1.0)
    assert found["last"] == pytest.approx({"epoch": 1.0, "refresh": 1.0, "memory": 2.0})
    assert exponents(sizes[:1]) == {}


def test_tables_say_what_was_measured() -> None:
    rows = [Row("pubmed", {"a": 0.5, "b": 1.5}, 3.0, (2.0, 4.0), "hidden 64")]
    text = markdown({"trainer": rows, "layer": []}, [Size(10, 1, 1, 1e6)], {"torch": "2"})
    assert "| pubmed | 500.0 ms | 1.50 s | 3.00 × (2.00–4.00) | hidden 64 |" in text
    assert "first layer" not in text
    assert "| 10 | 1.00 s | 1.00 s | 1 MB |" in text
    assert shown_seconds(0.00123) == "1.23 ms"
    assert shown_ratio(Row("x", {}, math.nan, (math.nan, math.nan))) == "–"


def test_a_loop_in_batches_goes_through_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    options = SyntheticOptions(num_nodes=200, num_features=30)
    data = GraphDataModule(synthetic=options, batch_size=70, val=60)
    data.setup("fit")
    model: dict[str, Any] = {"hidden_dim": 4, "dropout": 0.2, "refresh_interval": 0}
    loop = PlainLoop(data, model, 70)
    seen: list[int] = []
    loss = loop.model.batch_loss

    def watched(prepared: Any, nodes: Any) -> Any:
        seen.extend(nodes.tolist())
        return loss(prepared, nodes)

    monkeypatch.setattr(loop.model, "batch_loss", watched)
    loop.run(1)
    assert sorted(seen) == list(range(200))
