"""Config files over each other: one model, one data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.training.layers import (
    Layer,
    dataset_file,
    make_layer,
    merge,
    nested,
    read_layer,
    resolve,
)

FILES = {
    "cora.yaml": """
data: {dataset: cora_ml}
model: {class_path: pamt_lightning.PAMTModule, init_args: {lr: 0.7, hidden_dim: 9}}
""",
    "pts.yaml": """
model: {class_path: pamt_lightning.PTSModule, init_args: {dropout: 0.1}}
by_dataset:
  pubmed: {model: {init_args: {dropout: 0.2}}}
  coauthor_cs: {model: {init_args: {dropout: 0.3}}, trainer: {max_epochs: 5}}
  synthetic: {model: {init_args: {dropout: 0.4}}}
""",
    "gat.yaml": "model: {class_path: pamt_lightning.GATModule, init_args: {lr: 0.077}}",
    "lr.yaml": "model: {init_args: {lr: 1e-3}}",  # for any model
    "only_cora.yaml": "data: {dataset: cora_ml}",
    "only_pubmed.yaml": "data: {dataset: pubmed}",
    "own_data.yaml": "data: {path: mine}",
    "no_data.yaml": "data: {path: null, dataset: null}",
    "calls_gat.yaml": "data: {dataset: pubmed}\nmodel: GAT",
    "class_gat.yaml": "data: {dataset: pubmed}\nmodel: {class_path: GAT}",
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


def model_of(
    files: str, model: str | None = None, data: dict[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """Name of the method and the model values that files (by stem) come to."""
    resolved = resolve([f"{name}.yaml" for name in files.split()], model, data)
    return resolved.model.name, resolved.merged().get("model", {})


# One data set --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "data", "dropout"),
    [
        ("pts", {}, 0.4),
        ("pts", {"dataset": "pubmed"}, 0.2),
        ("pts", {"dataset": "PubMed"}, 0.2),
        ("pts", {"dataset": "ms_academic"}, 0.3),
        ("pts", {"dataset": "ms-aca"}, 0.3),
        ("pts", {"dataset": "citeseer"}, 0.1),
        ("pts only_cora", {}, 0.1),
        ("only_cora pts", {}, 0.1),
        ("cora pts", {}, 0.1),
        ("cora pts", {"dataset": "pubmed"}, 0.2),
        ("cora only_pubmed pts", {}, 0.2),
        ("pts only_cora only_pubmed", {}, 0.2),
        ("pts", {"path": "mine"}, 0.1),
        ("pts own_data", {}, 0.1),
        ("pts no_data", {}, 0.4),
        ("pts own_data", {"path": None}, 0.4),
    ],
)
def test_values_for_the_data_set_in_use_override_those_of_their_file(
    files: str, data: dict[str, Any], dropout: float
) -> None:
    assert model_of(files, data=data) == ("PTS", {"dropout": dropout})


def test_all_sections_of_a_data_set_count() -> None:
    resolved = resolve(["pts.yaml"], data={"dataset": "ms_academic"})
    assert resolved.merged()["trainer"] == {"max_epochs": 5}
    assert "by_dataset" not in resolved.merged()


def test_a_data_set_may_have_another_model(tmp_path: Path) -> None:
    (tmp_path / "both.yaml").write_text(
        "model: {class_path: PAMTModule, init_args: {lr: 0.7}}\n"
        "by_dataset: {pubmed: {model: {class_path: PTS, init_args: {alpha: 0.3}}}}\n"
    )
    assert model_of("both", data={"dataset": "citeseer"}) == ("PAMT", {"lr": 0.7})
    assert model_of("both", data={"dataset": "pubmed"}) == ("PTS", {"alpha": 0.3})


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("by_dataset: {cora: {}}", ("by_dataset.cora", "Did you mean", "cora_ml")),
        ("by_dataset: {nothing_like_it: {}}", ("Known: cora_ml, citeseer, pubmed",)),
        ("by_dataset: {1: {}}", ("by_dataset.1",)),
        ("by_dataset: [pubmed]", ("by_dataset", "['pubmed']")),
        ("by_dataset: null", ("by_dataset", "None")),
        ("by_dataset: {pubmed: 3}", ("by_dataset.pubmed", "got 3")),
        ("by_dataset: {pubmed: {modle: {}}}", ("by_dataset.pubmed", "'modle'", "'model'")),
        ("by_dataset: {pubmed: {by_dataset: {}}}", ("by_dataset.pubmed", "'by_dataset'")),
        ("by_dataset: {pubmed: {data: {dataset: citeseer}}}", ("by_dataset.pubmed", "other data")),
        ("modle: {}", ("'modle'", "Did you mean 'model'?", "by_dataset")),
        ("ckpt_path: last", ("ckpt_path", "command line")),
        ("data: cora_ml", ("data", "'cora_ml'")),
        ("trainer: [1]", ("trainer", "[1]")),
        ("model: [GAT]", ("model", "class_path", "['GAT']")),
        ("model: {lr: 3}", ("model", "init_args", "'lr'")),
        ("model: GATT", ("'GATT'", "Did you mean 'GAT'?")),
        ("model: {class_path: GATT}", ("'GATT'", "Did you mean 'GAT'?")),
        ("model: no.yaml", ("model", "no.yaml", "No such file")),
        ("by_dataset: {pubmed: {model: no.yaml}}", ("model", "no.yaml", "No such file")),
        ("just text", ("sections", "str")),
        ("model: [", ("line 1, column 9", "YAML")),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    content: str, facts: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(InputError) as error:
        resolve(["cora.yaml", "bad.yaml"])
    assert str(error.value).startswith("bad.yaml")
    assert all(fact in str(error.value) for fact in facts), error.value


# One model -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["pamt_lightning.PAMTModule", "pamt_lightning.methods.pamt.PAMTModule", "PAMTModule"]
)
def test_the_same_class_named_again_keeps_its_values(path: str, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(
        f"model: {{class_path: {path}, init_args: {{hidden_dim: 3}}}}"
    )
    assert model_of("cora more") == ("PAMT", {"lr": 0.7, "hidden_dim": 3})


def test_classes_of_one_name_in_two_packages_are_two(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "model: {class_path: mine.PAMTModule, init_args: {lr: 0.7}}"
    )
    assert model_of("mine") == ("PAMT", {"lr": 0.7})
    mine = resolve(["mine.yaml"]).model
    assert (mine.class_path, mine.method) == ("mine.PAMTModule", None)
    assert model_of("mine", "pamt_lightning.PAMTModule") == ("PAMT", {})


@pytest.mark.parametrize(
    ("files", "model", "lr"),
    [
        ("", "GAT", None),
        ("lr", "GAT", 0.001),
        ("lr", "GATModule", 0.001),
        ("cora lr", "GAT", 0.001),
        ("lr cora", "GAT", 0.001),
        ("gat", "GAT", 0.077),
        ("gat", None, 0.077),
        ("gat lr", "GAT", 0.001),
        ("lr gat", "GAT", 0.077),
        ("cora", "GAT", None),
        ("pts", "GAT", None),
        ("", "pamt_lightning.GATModule", None),
        ("cora pts", "GATModule", None),
        ("only_pubmed", "GAT", 0.01),  # the method's file has values for Pubmed …
        ("only_pubmed gat", "GAT", 0.077),  # … below the files that the user gives
        ("calls_gat", None, 0.01),
        ("class_gat", None, None),
        ("cora calls_gat", None, 0.01),
        ("calls_gat lr", None, 0.001),
        ("lr calls_gat", None, 0.01),
    ],
)
def test_files_for_the_model_override_the_file_of_its_method(
    files: str, model: str | None, lr: float | None
) -> None:
    name, values = model_of(files, model)
    assert name == "GAT"
    assert values.get("lr") == lr


@pytest.mark.parametrize("files", ["cora", "cora lr"])
def test_a_variant_of_pamt_overrides_all_files(files: str, tmp_path: Path) -> None:
    (tmp_path / "beta.yaml").write_text("model: {init_args: {momentum: 0.3, refresh_interval: 7}}")
    name, values = model_of(f"{files} beta", "PAMT_0")
    assert name == "PAMT_0"
    assert (values["momentum"], values["refresh_interval"], values["hidden_dim"]) == (0.3, 0, 9)
    assert model_of("beta", "PAMT_1")[1]["momentum"] == 0
    (tmp_path / "calls.yaml").write_text("model: PAMT_1")
    assert model_of("cora calls") == ("PAMT_1", {"lr": 0.7, "hidden_dim": 9, "momentum": 0.0})


@pytest.mark.parametrize(
    ("files", "model", "notes"),
    [
        ("cora pts", None, []),
        ("cora", "GAT", []),
        ("pts only_pubmed", None, []),
        ("only_pubmed", "GAT", []),
        ("gat", "GAT", []),
        ("pts cora", None, [("pts.yaml", "later file", "PAMT")]),
        ("pts", "GAT", [("pts.yaml", "--model GAT")]),
        ("pts cora gat", "PAMT_0", [("pts.yaml", "PAMT_0"), ("gat.yaml", "PAMT_0")]),
    ],
)
def test_a_model_section_that_is_not_used_is_noted(
    files: str, model: str | None, notes: list[tuple[str, ...]]
) -> None:
    found = resolve([f"{name}.yaml" for name in files.split()], model).notes
    assert len(found) == len(notes)
    for note, facts in zip(found, notes, strict=True):
        assert all(fact in note for fact in facts), note


@pytest.mark.parametrize("model", ["no.yaml", "pts.yaml", "configs/baselines/gat.yaml"])
def test_a_file_is_not_a_model(model: str) -> None:
    with pytest.raises(InputError, match=rf"{model}.* --config"):
        resolve([], model)


# A checkpoint --------------------------------------------------------------------------------


@pytest.fixture
def trained() -> Layer:
    path = "pamt_lightning.methods.propagate_then_train.PTSModule"
    model = {"class_path": path, "init_args": {"dropout": 0.9}}
    return make_layer("the checkpoint", {"model": model, "data": {"dataset": "pubmed"}})


def test_a_checkpoint_lies_below_the_files(trained: Layer) -> None:
    assert resolve([], None, base=trained).merged()["model"] == {"dropout": 0.9}
    assert resolve(["pts.yaml"], base=trained).merged()["model"] == {"dropout": 0.2}
    # By its name alone the method brings its values below those of the run.
    assert resolve([], "PTS", base=trained).merged()["model"] == {"dropout": 0.9}


@pytest.mark.parametrize(
    ("files", "model", "source"),
    [
        (["cora.yaml"], None, "cora.yaml"),
        (["pts.yaml", "cora.yaml"], None, "cora.yaml"),
        ([], "PAMT", "--model PAMT"),
        (["pts.yaml"], "PAMT_0", "--model PAMT_0"),
    ],
)
def test_another_model_than_that_of_the_checkpoint_is_refused(
    files: list[str], model: str | None, source: str, trained: Layer
) -> None:
    with pytest.raises(InputError, match=rf"^{source} asks for PAMT.* is of PTS"):
        resolve(files, model, base=trained)


# Files ---------------------------------------------------------------------------------------


def test_a_section_in_a_file_of_its_own_is_found_beside_its_config(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "model.yaml").write_text("class_path: PTSModule\ninit_args: {lr: 0.6}")
    (deep / "trainer.yaml").write_text("max_epochs: 7")
    (deep / "more.yaml").write_text("patience: 8")
    (deep / "whole.yaml").write_text(
        "model: model.yaml\ntrainer: trainer.yaml\nby_dataset: {cora_ml: {stopping: more.yaml}}"
    )
    resolved = resolve(["cora.yaml", "deep/whole.yaml"])
    assert resolved.model.name == "PTS"
    assert resolved.merged() == {
        "data": {"dataset": "cora_ml"},
        "model": {"lr": 0.6},
        "trainer": {"max_epochs": 7},
        "stopping": {"patience": 8},
    }


def test_shipped_files_are_found_from_everywhere() -> None:
    assert read_layer("configs/pubmed.yaml").content["data"] == {"dataset": "pubmed"}
    assert dataset_file("PubMed") == "configs/pubmed.yaml"
    assert dataset_file("mine/own.yaml") == "mine/own.yaml"
    with pytest.raises(InputError, match="'coraml'"):
        dataset_file("coraml")


def test_mappings_are_merged_and_all_else_is_replaced() -> None:
    logger = {"class_path": "B", "init_args": {"x": 1}}
    content: dict[str, Any] = {
        "a": {"b": 1, "c": [1, 2]},
        "logger": {"class_path": "A", "init_args": {"y": 1}},
    }
    over = {"a": {"c": [3]}, "logger": logger, "d": {"e": 1}}
    merge(content, over)
    assert content == {"a": {"b": 1, "c": [3]}, "logger": logger, "d": {"e": 1}}
    content["d"]["e"] = 2
    assert over["d"] == {"e": 1}
    assert nested({"a.b.c": 1, "a.d": 2}) == {"a": {"b": {"c": 1}, "d": 2}}
