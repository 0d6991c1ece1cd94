"""A run as plain values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from pamt_lightning import PAMTModule
from pamt_lightning.errors import InputError
from pamt_lightning.training.config import TRAINER_DEFAULTS, RunConfig, arguments, import_class
from pamt_lightning.training.stopping import BestStopping


def test_a_run_has_the_values_of_its_data_set_and_method() -> None:
    config = RunConfig.create(
        "PAMT_0",
        dataset="Cora_ML",
        data={"split_seed": "test1"},
        model={"alpha": 0.3},
        stopping={"patience": 7},
        trainer={"max_epochs": 3},
        seed=5,
        test=False,
    )
    assert config.method == "PAMT_0"
    assert config.model["class_path"] == "pamt_lightning.PAMTModule"
    values = config.model["init_args"]
    assert (values["alpha"], values["momentum"], values["refresh_interval"]) == (0.3, 0.5, 0)
    assert config.data == {"dataset": "cora_ml", "split_seed": "test1"}
    assert config.trainer == {**TRAINER_DEFAULTS, "max_epochs": 3}
    assert config.stopping == {"patience": 7}
    assert (config.seed, config.test) == (5, False)


def test_a_data_set_may_be_a_config_file(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("data: {path: mine}\nmodel: {init_args: {alpha: 0.4}}")
    config = RunConfig.create("PTS", dataset=str(path))
    assert (config.data, config.model["init_args"]) == ({"path": "mine"}, {"alpha": 0.4})


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="Did you mean 'GAT'"):
        RunConfig.create("GATT")
    with pytest.raises(InputError, match="cora_ml"):
        RunConfig.create(dataset="coraml")


@pytest.mark.parametrize("name", ["PAMT", "PAMT_0", "GAT", "RGCN", "my_package.nets.OwnModule"])
def test_a_run_comes_back_from_plain_values(name: str, tmp_path: Path) -> None:
    config = RunConfig.create(name, dataset="citeseer", seed=3, test=False)
    assert RunConfig.from_dict(config.to_dict()) == config
    assert json.loads(json.dumps(config.to_dict())) == config.to_dict()
    config.save(tmp_path / "deep" / "config.yaml")
    assert (tmp_path / "deep" / "config.yaml").read_text() == config.to_yaml()
    assert RunConfig.from_dict(yaml.safe_load(config.to_yaml())) == config


def test_plain_values_name_the_method_not_its_class() -> None:
    assert RunConfig.create("pamt-0").to_dict()["model"]["class_path"] == "PAMT_0"
    own = RunConfig.create("my_package.OwnModule")
    assert own.method == "Own"
    assert own.to_dict()["model"]["class_path"] == "my_package.OwnModule"


def test_changing_a_copy_leaves_the_run_alone() -> None:
    config = RunConfig.create(data={"synthetic": {"num_nodes": 30}})
    config.to_dict()["data"]["synthetic"]["num_nodes"] = 4
    other = config.with_options({"data.synthetic.num_nodes": 50})
    assert other.data["synthetic"] == {"num_nodes": 50}
    assert config.data["synthetic"] == {"num_nodes": 30}


def test_options_give_another_run_of_the_same_name() -> None:
    config = RunConfig.create("PAMT", dataset="cora_ml")
    options = {"model.momentum": 0, "data.split_seed": "val1", "seed_everything": 2}
    other = config.with_options({**options, "stopping.patience": 3, "trainer.max_epochs": 9})
    assert other.method == "PAMT"
    assert other.model["init_args"] == {**config.model["init_args"], "momentum": 0}
    assert (other.data["split_seed"], other.seed) == ("val1", 2)
    assert (other.stopping["patience"], other.trainer["max_epochs"]) == (3, 9)
    assert config.model["init_args"]["momentum"] == 0.5
    with pytest.raises(InputError, match="'modle'"):
        config.with_options({"modle.lr": 1})


def test_a_complete_run_has_every_value() -> None:
    config = RunConfig.create("PAMT", model={"alpha": 0.3}).complete()
    sizes = {"num_features", "num_classes"}
    assert set(config.model["init_args"]) == set(arguments(PAMTModule)) - sizes
    assert config.model["init_args"]["alpha"] == 0.3
    assert config.stopping == {
        "patience": arguments(BestStopping)["patience"].default,
        "save_seconds": arguments(BestStopping)["save_seconds"].default,
    }
    assert config.data["synthetic"]["num_nodes"] == 3000  # plain values, no objects
    assert config.complete() == config


@pytest.mark.parametrize(
    ("section", "name", "near"),
    [("model", "mometum", "momentum"), ("data", "trian", "train"), ("stopping", "patienc", "pat")],
)
def test_an_unknown_argument_is_named(section: str, name: str, near: str) -> None:
    config = RunConfig.create().with_options({f"{section}.{name}": 1})
    with pytest.raises(InputError, match=rf"{section}\.{name}.*'{near}"):
        config.complete()
    with pytest.raises(InputError, match=r"stopping\.dirpath"):
        RunConfig.create(stopping={"dirpath": "x"}).complete()


def test_classes_are_found_by_path() -> None:
    assert import_class("pamt_lightning.PAMTModule") is PAMTModule
    for wrong in ("pamt_lightning.NoModule", "no_such_package.Thing", "Thing", "..", "os.path"):
        with pytest.raises(InputError, match="class"):
            import_class(wrong)


class Base:
    def __init__(self, a: int = 1, b: int = 2) -> None: ...


class Middle(Base):
    def __init__(self, b: int = 3, **options: int) -> None: ...


class Last(Middle):
    def __init__(self, c: int = 4, **options: int) -> None: ...


def test_further_keyword_arguments_are_those_of_the_base() -> None:
    found = {name: parameter.default for name, parameter in arguments(Last).items()}
    assert found == {"a": 1, "b": 3, "c": 4}


def test_a_config_file_decides_what_is_not_given(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "model: GAT\nseed_everything: 7\ntest_after_fit: false\n"
        "data: {dataset: synthetic, synthetic: {num_nodes: 50, seed: 3}}\n"
    )
    config = RunConfig.create(dataset=str(file), data={"synthetic": {"seed": 4}})
    assert (config.method, config.seed, config.test) == ("GAT", 7, False)
    assert config.data["synthetic"] == {"num_nodes": 50, "seed": 4}
    assert RunConfig.create("MLP", dataset=str(file), seed=1, test=True).method == "MLP"


def test_a_plain_description_gets_the_trainers_defaults() -> None:
    config = RunConfig.from_dict({"model": "GAT", "data": {"dataset": "synthetic"}})
    assert config.method == "GAT"
    assert config.trainer["max_epochs"] == 2000
    with pytest.raises(InputError, match="modell"):
        RunConfig.from_dict({"modell": "GAT"})


def test_a_name_of_ones_own_keeps_the_class() -> None:
    config = RunConfig("mine", {"class_path": "pamt_lightning.MLPModule", "init_args": {}})
    assert config.to_dict()["model"]["class_path"] == "pamt_lightning.MLPModule"
    wrong = RunConfig("GCN", {"class_path": "pamt_lightning.MLPModule", "init_args": {}})
    assert wrong.to_dict()["model"]["class_path"] == "pamt_lightning.MLPModule"
