"""The tables that `pamt fit`, `pamt test` and `pamt validate` print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pamt_lightning import run
from pamt_lightning.training.report import percent, print_metrics, print_run
from tests.small_run import small_config


def test_a_run_prints_what_it_came_to(elsewhere: None, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(small_config(), folder=Path("r"), quiet=True)
    print_run(result)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PAMT on synthetic (240 nodes, 600 edges, 60 features, 3 classes)"
    assert len(lines) <= 13
    found = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in lines[1:])
    assert found["split"].endswith("seed 2144199730: 15 training, 60 validation, 165 test nodes")
    assert found["val accuracy"] == percent(result.val_acc)
    assert found["test accuracy"] == f"{100 * result.record['test_acc']:.2f} %"
    assert found["epochs"] == f"4, best {result.record['best_epoch']}"
    assert found["checkpoint"] == "r/best.ckpt"
    assert found["results"] == "r/results.json"
    assert found["TensorBoard"] == "tensorboard --logdir r"
    assert re.fullmatch(r"[\d.]+, 1 thread", found["seconds"])
    assert not {"inference", "views", "  equal weights", "noise", "unreached"} & set(found)


def test_the_chosen_inference_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(small_config(inference="auto"), quiet=True)
    print_run(result)
    chosen = result.record["inference"]
    assert f"  inference      {chosen}, chosen on the validation nodes\n" in capsys.readouterr().out


def test_the_views_of_a_pool_are_printed_and_no_file_without_a_folder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = small_config("PAMT_plus").with_options({"data.structure_noise": 0.5})
    result = run(config, quiet=True)
    weights = {"graph": 0.3, "hops": 0.9, "joined": 0.002, "attributes": 0.0}
    result.record["views"] = {name: {"weight": weight} for name, weight in weights.items()}
    print_run(result)
    shown = capsys.readouterr().out
    assert re.search(r"\n +views +hops 75 %, graph 25 % of the weight in the pool\n", shown)
    equal = percent(result.record["test_metrics"]["test_acc_equal_weights"])
    assert re.search(rf"\n +test accuracy .*\n +equal weights +{equal}\n", shown)
    assert "inference" not in shown
    assert re.search(r"\n +noise +0\.5\d* of edges", shown)
    assert "checkpoint" not in shown
    assert "TensorBoard" not in shown


def test_metrics_are_shares_in_percent_and_losses_as_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = run(small_config("LabelPropagation"), quiet=True)
    print_metrics({"test_acc": 0.5, "test_loss": 1.23456}, "LP", result.datamodule)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("LP on synthetic (240 nodes")
    assert lines[1:] == ["  test_acc   50.00 %", "  test_loss  1.2346"]
