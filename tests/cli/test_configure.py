"""From config files and options to a run: precedence, names, and errors that name the option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.cli.configure import Configurator, FitOptions
from pamt_lightning.errors import InputError
from pamt_lightning.methods.registry import METHODS
from tests.small_run import failed, output_of, parsed

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture(scope="module")
def configure() -> Configurator:
    return Configurator()


@pytest.mark.parametrize(
    "argv",
    [
        ["--model.lr=0.1", "--model=gat"],
        ["--model.lr", "1e-1", "--config", "configs/cora_ml.yaml", "--model", "GAT"],
        ["--model", "GAT", "--model.lr", "0.1", "--config", "configs/pubmed.yaml"],
        ["--model", "GAT", "--model.lr", "0.3", "--model.lr", "0.1"],
        ["--model.class_path", "pamt_lightning.GATModule", "--model.lr", "0.1"],
    ],
)
def test_command_line_options_override_files_wherever_they_are(argv: list[str]) -> None:
    model = parsed(argv)["model"]
    assert model["class_path"] == "GAT"
    assert model["init_args"]["lr"] == 0.1
    assert model["init_args"]["dropout"] == 0.6  # neither PAMT's nor that of the data set's file


def test_no_config_is_the_synthetic_config() -> None:
    without = parsed([])
    with_it = parsed(["--config", "configs/synthetic.yaml"])
    with_it["data"]["dataset"] = None
    assert without == with_it


def test_options_by_name_override_files(configure: Configurator) -> None:
    options = {"model.alpha": 0.25, "data.synthetic.num_nodes": 50, "seed_everything": 4}
    config = configure(["configs/cora_ml.yaml"], "PAMT_1", options)
    assert (config.method, config.seed) == ("PAMT_1", 4)
    values = config.model["init_args"]
    assert (values["alpha"], values["momentum"], values["lr"]) == (0.25, 0.0, 0.05)
    assert config.data["synthetic"]["num_nodes"] == 50
    values = configure([], "GAT", {"data.dataset": "pubmed"}).model["init_args"]
    assert values["num_output_heads"] == 8  # of the method's file for this data set


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_a_printed_config_gives_the_same_run_again(
    method: Any, tmp_path: Path, configure: Configurator
) -> None:
    config = configure(["configs/pubmed.yaml"], method.name, {"data.train": 7})
    config.save(tmp_path / "run.yaml")
    assert configure(["run.yaml"]) == config
    assert config.to_dict() == parsed(["--config", "run.yaml"])


@pytest.mark.parametrize(
    ("argv", "facts"),
    [
        (["--model.hiden_dim", "3"], ("--model.hiden_dim", "Did you mean 'hidden_dim'?")),
        (["--model", "GAT", "--model.momentum", "3"], ("--model.momentum",)),
        (["--trainer.max_epoch", "3"], ("Did you mean 'max_epochs'?",)),
        (["--run_dri", "x"], ("--run_dri", "Did you mean '--run_dir'?")),
        (["--max_epochs", "3"], ("--max_epochs", "'--trainer.max_epochs'")),
        (["--data.synthetic.num_nodes", "many"], ("data.synthetic.num_nodes", "many")),
        (["--model.lr", "fast"], ("model.lr", "float", "'fast'")),
        (["--model.lr"], ("model.lr", "float")),
        (["--data.split", "half"], ("data.split", "'ppnp', 'random', 'given'", "'half'")),
        (["--seed_everything", "false"], ("seed_everything", "int", "False")),
        (["--test_after_fit", "maybe"], ("test_after_fit", "bool", "maybe")),
        (["--model", "collections.OrderedDict"], ("OrderedDict", "NodeClassificationModule")),
        (["--model", "pamt_lightning.no.Such"], ("pamt_lightning.no.Such",)),
        (["oops"], ("oops",)),
        (["--config", "model: {init_args: {hiden_dim: 3}}"], ("model.hiden_dim", "'hidden_dim'")),
        (["--config", "data: {batch_size: many}"], ("data.batch_size", "int", "'many'")),
        (["--config", "data: {synthetic: {num_nodes: many}}"], ("data.synthetic", "many")),
        (["--config", "seed_everything: x"], ("seed_everything", "int")),
    ],
)
def test_a_wrong_option_is_named_with_its_file_and_what_it_takes(
    argv: list[str], facts: tuple[str, ...], tmp_path: Path
) -> None:
    if argv[0] == "--config":
        (tmp_path / "bad.yaml").write_text(argv[1])
        argv = ["--config", "configs/cora_ml.yaml", "--config", "bad.yaml"]
        facts = ("bad.yaml", *facts)
    line = failed(["fit", *argv, "--print_config"])
    assert all(fact in line for fact in facts), line
    assert len(line) < 250


def test_options_that_only_other_commands_have_are_passed_over(
    tmp_path: Path, configure: Configurator
) -> None:
    (tmp_path / "run.yaml").write_text("test_after_fit: false\nrun_dir: x\ntrainer: {devices: 1}")
    assert configure(["run.yaml"]).test is False
    (tmp_path / "run.yaml").write_text("test_after_fit: false\ntrainer: {max_epochs: x}")
    with pytest.raises(InputError, match=r"run\.yaml: trainer\.max_epochs"):
        configure(["run.yaml"])


def test_a_wrong_value_from_python_is_named(configure: Configurator) -> None:
    with pytest.raises(InputError, match=r"^model\.lr must be float, got 'fast'\.$"):
        configure([], "GAT", {"model.lr": "fast"})
    with pytest.raises(InputError, match=r"model\.mometum.*'momentum'"):
        configure([], None, {"model.mometum": 0.1})


def test_the_method_of_a_later_file_is_noted_in_one_line() -> None:
    files = ["--config", "configs/baselines/gat.yaml", "--config", "configs/synthetic.yaml"]
    (note,) = output_of(["fit", *files, "--print_config"])[1].splitlines()
    assert note.startswith("pamt fit: note: ")
    assert "configs/baselines/gat.yaml" in note


@pytest.mark.parametrize(
    ("argv", "listed", "not_listed"),
    [
        (
            ["--help"],
            ("config", "ckpt_path", "data.path", "model.momentum", "trainer.max_epochs"),
            ("stopping.dirpath", "model.num_features"),
        ),
        (["--model.help", "GAT"], ("model.num_output_heads",), ("model.momentum",)),
    ],
)
def test_help_lists_options(
    argv: list[str], listed: tuple[str, ...], not_listed: tuple[str, ...]
) -> None:
    shown, _ = output_of(["fit", *argv])
    assert all(f"--{option}" in shown for option in listed)
    assert not any(f"--{option}" in shown for option in not_listed)


def test_a_command_with_many_runs_has_the_options_of_fit(tmp_path: Path) -> None:
    args = ["--config", "configs/cora_ml.yaml", "--model", "PAMT_0", "--model.lr", "0.3"]
    fit = FitOptions.parse("bench", args)
    assert fit.config.method == "PAMT_0"
    other = fit.configure({"data.split_seed": "val1", "model.lr": 0.4})
    assert other.data["split_seed"] == "val1"
    assert other.model["init_args"]["lr"] == 0.4
    assert fit.config.model["init_args"]["lr"] == 0.3
    below = FitOptions.parse("study", args[2:]).configure({}, "citeseer")
    assert below.data["dataset"] == "citeseer"
    assert below.model["init_args"]["momentum"] == 0.25  # of configs/citeseer.yaml
    assert below.model["init_args"]["lr"] == 0.3
    file = tmp_path / "roots.yaml"
    file.write_text("data: {root: [/a]}")
    more = FitOptions.parse("bench", ["--config", str(file), "--data.root+=/b"])
    assert more.configure({}).data["root"] == more.config.data["root"] == ["/a", "/b"]
    with pytest.raises(SystemExit) as stop:
        FitOptions.parse("bench", ["--help"])
    assert stop.value.code == 0
