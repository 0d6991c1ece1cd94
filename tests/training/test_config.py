"""A run as plain values."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml

from pamt_lightning import PAMTModule
from pamt_lightning.errors import InputError
from pamt_lightning.training.config import TRAINER_DEFAULTS, RunConfig, arguments, import_class
from pamt_lightning.training.stopping import BestStopping


class Unit(str, Enum):
    A = "a"


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
    values = config.model["init_args"]
    assert (values["alpha"], values["momentum"], values["refresh_interval"]) == (0.3, 0.5, 0)
    assert config == RunConfig(
        method="PAMT_0",
        model={"class_path": "pamt_lightning.PAMTModule", "init_args": values},
        data={"dataset": "cora_ml", "split_seed": "test1"},
        stopping={"patience": 7},
        trainer={**TRAINER_DEFAULTS, "max_epochs": 3},
        seed=5,
        test=False,
    )


def test_a_config_file_decides_what_is_not_given(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "model: {class_path: GAT, init_args: {lr: 0.4}}\nseed_everything: 7\n"
        "test_after_fit: false\n"
        "data: {dataset: synthetic, synthetic: {num_nodes: 50, seed: 3}}\n"
    )
    config = RunConfig.create(dataset=str(file), data={"synthetic": {"seed": 4}})
    assert (config.method, config.seed, config.test) == ("GAT", 7, False)
    assert config.data["synthetic"] == {"num_nodes": 50, "seed": 4}
    other = RunConfig.create("MLP", dataset=str(file), seed=1, test=True)
    assert (other.method, other.seed, other.test) == ("MLP", 1, True)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("PAMT", "PAMT"),
        ("pamt-0", "PAMT_0"),
        ("RGCN", "RobustGCN"),
        ("my_package.nets.OwnModule", "my_package.nets.OwnModule"),
    ],
)
def test_a_run_comes_back_from_plain_values(name: str, written: str, tmp_path: Path) -> None:
    config = RunConfig.create(name, dataset="citeseer", seed=3, test=False)
    content = config.to_dict()
    assert content["model"]["class_path"] == written
    assert RunConfig.from_dict(json.loads(json.dumps(content))) == config
    config.save(tmp_path / "deep" / "config.yaml")
    assert yaml.safe_load((tmp_path / "deep" / "config.yaml").read_text()) == content
    content["data"]["dataset"] = "pubmed"
    assert config.data["dataset"] == "citeseer"


def test_values_that_yaml_does_not_know_are_written_as_text() -> None:
    timer = {"class_path": "pytorch_lightning.callbacks.Timer", "init_args": {"interval": Unit.A}}
    trainer = RunConfig.create("PAMT").with_options({"trainer.callbacks": [timer]}).to_yaml()
    written = yaml.safe_load(trainer)["trainer"]["callbacks"]
    assert written == [timer | {"init_args": {"interval": "a"}}]


def test_a_name_of_ones_own_keeps_the_class() -> None:
    for name in ("mine", "GCN"):
        config = RunConfig(name, {"class_path": "pamt_lightning.MLPModule", "init_args": {}})
        assert config.to_dict()["model"]["class_path"] == "pamt_lightning.MLPModule"


def test_options_give_another_run_of_the_same_name() -> None:
    config = RunConfig.create("PAMT", dataset="cora_ml", data={"synthetic": {"num_nodes": 30}})
    options = {"model.momentum": 0, "data.split_seed": "val1", "seed_everything": 2}
    options |= {"data.synthetic.num_nodes": 50, "trainer.max_epochs": 9, "stopping.patience": 3}
    other = config.with_options(options)
    assert other.method == "PAMT"
    assert other.model["init_args"] == {**config.model["init_args"], "momentum": 0}
    assert (other.data["split_seed"], other.seed) == ("val1", 2)
    assert (other.stopping["patience"], other.trainer["max_epochs"]) == (3, 9)
    assert other.data["synthetic"] == {"num_nodes": 50}
    assert config.data["synthetic"] == {"num_nodes": 30}
    assert config.model["init_args"]["momentum"] == 0.5
    with pytest.raises(InputError, match="'modle'"):
        config.with_options({"modle.lr": 1})


def test_a_complete_run_has_every_value() -> None:
    config = RunConfig.create("PAMT", model={"alpha": 0.3}).complete()
    defaults = {name: each.default for name, each in arguments(PAMTModule).items()}
    pair = list(defaults["weight_decay"])  # as files hold it
    assert config.model["init_args"] == {**defaults, "alpha": 0.3, "weight_decay": pair}
    assert config.stopping == {k: p.default for k, p in arguments(BestStopping).items()}
    assert config.data["synthetic"]["num_nodes"] == 3000  # plain values, no objects
    assert config.complete() == config == RunConfig.from_dict(config.to_dict())


@pytest.mark.parametrize(
    ("option", "near"),
    [
        ("model.mometum", ".*'momentum'"),
        ("model.num_features", ""),
        ("data.trian", ".*'train'"),
        ("stopping.patienc", ".*'patience'"),
        ("stopping.dirpath", ""),
    ],
)
def test_an_unknown_argument_is_named(option: str, near: str) -> None:
    with pytest.raises(InputError, match=rf"{option}{near}"):
        RunConfig.create().with_options({option: 1}).complete()


def test_classes_are_found_by_path() -> None:
    assert import_class("pamt_lightning.PAMTModule") is PAMTModule
    for wrong in ("pamt_lightning.NoModule", "no_such_package.Thing", "Thing", "..", "os.path"):
        with pytest.raises(InputError, match="class"):
            import_class(wrong)


class Base:
    def __init__(self, a: int = 1, b: int = 2) -> None: ...


class Middle(Base):
    def __init__(self, b: int = 3, **options: Any) -> None: ...


class Last(Middle):
    def __init__(self, num_classes: int, c: int = 4, **options: Any) -> None: ...


def test_further_keyword_arguments_are_those_of_the_base() -> None:
    found = {name: parameter.default for name, parameter in arguments(Last).items()}
    assert found == {"a": 1, "b": 3, "c": 4}  # a run sets the sizes itself
