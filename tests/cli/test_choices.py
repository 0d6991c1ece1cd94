"""What is read from a command line before torch is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pamt_lightning.cli.choices import Choices
from pamt_lightning.errors import InputError


def test_choices_are_taken_out_and_other_arguments_keep_their_order() -> None:
    args = ["--model.lr", "0.1", "-c", "a.yaml", "--data.path=x", "--config=b.yaml", "--model"]
    args += ["GAT", "--ckpt_path", "last", "--data.train", "3", "--print_config"]
    assert Choices.read(args) == Choices(
        files=("a.yaml", "b.yaml"),
        model="GAT",
        data={"path": "x"},
        ckpt_path="last",
        print_config=True,
        help=None,
        args=("--model.lr", "0.1", "--data.train", "3", "--data.path=x"),
    )


def test_the_last_value_of_an_option_counts() -> None:
    choices = Choices.read(["--model", "PTS", "--model.class_path=GAT", "--ckpt_path", "a"])
    assert choices.model == "GAT"
    assert Choices.read(["--ckpt_path", "a", "--ckpt_path=b"]).ckpt_path == "b"
    assert Choices.read(["--data.dataset", "a", "--data.dataset", "null"]).data == {"dataset": None}


@pytest.mark.parametrize(
    ("args", "model"),
    [
        (["--model.help=GATModule"], "GAT"),
        (["--model", "GAT", "--model.help"], "GAT"),
        (["--model.help", "--model", "gat"], "GAT"),
        (["--model.help"], "PAMT"),
    ],
)
def test_help_on_a_model_names_it(args: list[str], model: str) -> None:
    choices = Choices.read(["--config", "missing.yaml", *args])
    assert choices.help == "model"
    assert choices.resolve().model.name == model


def test_data_named_in_any_way_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cpu.yaml").write_text("trainer: {accelerator: cpu}\ndata: {train: 3}")
    for args in (
        ["-c", "cpu.yaml", "-cconfigs/pubmed.yaml"],
        ["--data.path", "x"],
        ["--data.dataset=pubmed"],
    ):
        assert Choices.read(args).names_data, args
    assert not Choices.read(["--config", "cpu.yaml", "--data.root", "x"]).names_data


@pytest.mark.parametrize("option", ["--config", "--model", "--ckpt_path", "--data.path"])
def test_an_option_without_its_value_is_refused(option: str) -> None:
    with pytest.raises(InputError, match=option):
        Choices.read([option])
