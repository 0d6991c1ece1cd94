from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pamt_lightning.cli.main import main
from pamt_lightning.errors import InputError
from pamt_lightning.studies.tune import Trial, Tuner

SMALL = [
    *("--data.dataset", "synthetic", "--data.synthetic.num_nodes", "300"),
    *("--data.synthetic.num_features", "60", "--data.train", "5", "--trainer.max_epochs", "3"),
]
SPACE = {"space": {"model.lr": [0.01, 0.1]}}
OWN_SEED = ["--seeds", "0", *SMALL]
CORA = {"datasets": ["cora_ml"]}


def tune(space: dict[str, Any], folder: Path, *args: str) -> int:
    file = folder / "space.yaml"
    file.write_text(json.dumps(space))
    words = ["--space", str(file), "--folder", str(folder / "search"), "--jobs", "1", *args]
    return main(["tune", *words])


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake that is not noticed must not cost hours."""
    monkeypatch.setattr(Tuner, "search", lambda *_: pytest.fail("it was searched"))


def test_tune_searches_writes_its_choice_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("--trials", "2", "--seeds", "0,1", *SMALL)
    assert tune(SPACE, tmp_path, *args) == 0
    out = capsys.readouterr().out
    best = tmp_path / "search" / "best.yaml"
    assert f"best choice: {best}" in out
    text = best.read_text()
    assert "# Chosen by: pamt tune" in text
    content = yaml.safe_load(text)
    assert content["model"]["class_path"] == "PAMT"
    assert content["model"]["init_args"]["lr"] in (0.01, 0.1)
    worth = re.search(r"^(The first choice .*|It was not shown to be better .*)$", out, re.M)
    assert worth
    assert f"# {worth[0]}\n" in text
    assert "validation nodes" in out
    with (tmp_path / "search" / "trials.csv").open(newline="") as file:
        trials = list(csv.DictReader(file))
    assert len(trials) == 2
    assert float(trials[0]["score"]) == pytest.approx(float(trials[0]["data"]))
    rows = (tmp_path / "search" / "runs.jsonl").read_text().splitlines()
    assert 2 <= len(rows) <= 4  # one choice on two splits, or both
    assert tune(SPACE, tmp_path, *args) == 0
    assert (tmp_path / "search" / "runs.jsonl").read_text().splitlines() == rows


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(
    ("space", "args", "facts"),
    [
        *(
            ({}, ["--seeds", seeds, "--config", "configs/cora_ml.yaml"], ["published validation"])
            for seeds in ("test5", "7")
        ),
        ({}, ["--data.split_seed", "val0"], ["pamt tune", "--data.split_seed", "--seeds"]),
        ({}, ["--data.noise_seed=3"], ["pamt tune", "--data.noise_seed", "follows the split"]),
        ({"conditions": [{"data.split_seed": "test0"}]}, [], ["--data.split_seed", "--seeds"]),
        ({"conditions": [{"data.noise_seed": 1}]}, [], ["--data.noise_seed", "follows"]),
        ({"conditions": [{"data.split": "random"}]}, [], ["--data.split:", "same nodes"]),
        ({"space": {"data.train": [5, 20]}}, [], ["--data.train", "same nodes"]),
        ({"conditions": [{"data.num_known": 2500}]}, [], ["--data.num_known", "same nodes"]),
        (CORA, ["--data.num_known", "2500"], ["cora_ml", "test nodes", "`num_known`=2500"]),
        (CORA, ["--data.split", "random", "--seeds", "0"], ["cora_ml", "test nodes", "'random'"]),
        (
            {},
            ["--data.dataset", "cora_ml", "--data.split_path", "mine", "--seeds", "val0,"],
            ["cora_ml", "test nodes", "`split`='given'"],
        ),
        ({"conditions": [{"data.dataset": "pubmed"}]}, [], ["--data.dataset", "`datasets`"]),
        ({"space": {"seed_everything": [0, 1]}}, [], ["--seed_everything", "--inits"]),
        ({"space": {"ckpt_path": ["last"]}}, [], ["--ckpt_path"]),
        ({"space": {"model": ["GAT", "GCN"]}}, [], ["--model", "one method"]),
        (CORA, ["--config", "configs/pubmed.yaml"], ["data sets (cora_ml)"]),
        (CORA, ["--data.dataset", "pubmed"], ["data sets (cora_ml)"]),
        ({}, ["--trials", "0"], ["`trials`", "got 0"]),
        # What is typed wrong is not the fault of the space.
        ({}, ["--seeds", "0,1", "--model.alph", "0.1"], ["error: there is no", "'alpha'?"]),
        ({"conditions": [{}, {"data.trai": 0.5}]}, OWN_SEED, ["space.yaml: ", "trai", "'train'?"]),
        ({"space": {"model.lr": [0.01, 0.1, "fast"]}}, OWN_SEED, ["space.yaml: ", "lr", "'fast'"]),
    ],
)
def test_tune_refuses_in_one_line_and_stores_nothing(
    space: dict[str, Any],
    args: list[str],
    facts: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tune(SPACE | space, tmp_path, *args) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pamt tune: error: ")
    assert all(fact in line for fact in facts), line
    assert not (tmp_path / "search").exists()


def test_without_optuna_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert tune(SPACE, tmp_path, "--seeds", "0,1", *SMALL) == 2
    assert "Optuna" in capsys.readouterr().err
    assert not (tmp_path / "search").exists()


@pytest.mark.usefixtures("no_search")
def test_a_shipped_space_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # It was read if its data sets are known, which the command line then may not choose.
    args = ["--space", "configs/spaces/pamt.yaml", "--config", "configs/pubmed.yaml"]
    assert main(["tune", *args]) == 2
    assert "(cora_ml, citeseer, pubmed)" in capsys.readouterr().err
    assert main(["tune", "--space", "configs/spaces/pmat.yaml"]) == 2
    assert "Did you mean configs/spaces/pamt.yaml?" in capsys.readouterr().err


def test_a_search_is_stored_in_a_folder_named_after_its_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def search(tuner: Tuner, trials: int) -> list[Trial]:
        raise InputError(f"{tuner.runner.results.folder.as_posix()}, {trials} trials")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Tuner, "search", search)
    Path("mine.yaml").write_text("space: {model.lr: [0.1]}")
    assert main(["tune", "--space", "mine.yaml", "--jobs", "1", "--seeds", "0", *SMALL]) == 2
    assert "lightning_logs/tune/mine, 50 trials" in capsys.readouterr().err


def test_an_interrupted_search_says_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def search(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tuner, "search", search)
    assert tune(SPACE, tmp_path, "--seeds", "0,1", *SMALL) == 130
    assert "pamt tune: interrupted. The same command resumes." in capsys.readouterr().err
