"""Methods by name, their files, and config files by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import pamt_lightning
from pamt_lightning.errors import InputError
from pamt_lightning.methods import registry
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.methods.registry import (
    METHODS,
    config_folder,
    find_config,
    find_method,
    method_of_class,
    unknown_method,
)

NAMES = [method.name for method in METHODS]


def test_every_method_has_a_class_a_line_of_help_and_a_file() -> None:
    assert NAMES[0] == "PAMT"
    assert len(set(NAMES)) == len(NAMES)
    for method in METHODS:
        package, name = method.class_path.split(".")
        assert package == "pamt_lightning"
        assert issubclass(getattr(pamt_lightning, name), NodeClassificationModule)
        assert 10 < len(method.help) < 100, method
        assert method.results_version >= 1
        if method.name == "PAMT":  # its values are those of the data sets
            assert method.file is None
        else:
            assert method.file is not None
            assert method.file.is_file()
    files = {method.file for method in METHODS if method.file is not None}
    assert files == set((config_folder() / "baselines").glob("*.yaml"))


@pytest.mark.parametrize(
    ("written", "name"),
    [
        *((name, name) for name in NAMES),
        *((name.lower(), name) for name in NAMES),
        *(("robust-gcn", "RobustGCN"), ("Robust_GCN", "RobustGCN"), ("Robust GCN", "RobustGCN")),
        *(("RGCN", "RobustGCN"), ("r-gcn", "RobustGCN"), ("SGCN", "SGC")),
        *(("label-propagation", "LabelPropagation"), ("lp", "LabelPropagation")),
        *(("Pamt-R", "PAMT_r"), ("pamt plus", "PAMT_plus")),
    ],
)
def test_a_method_is_found_however_it_is_written(written: str, name: str) -> None:
    method = find_method(written)
    assert method is not None
    assert method.name == name


def test_a_class_is_found_by_its_path_and_by_its_name() -> None:
    for path in ("GATModule", "pamt_lightning.GATModule", "pamt_lightning.modules.gat.GATModule"):
        method = method_of_class(path)
        assert method is not None
        assert method.name == "GAT"
    for other in ("mine.GATModule", "GATT", "pamt_lightning.Graph"):
        assert method_of_class(other) is None
    pamt = method_of_class("PAMTModule")  # the class of four methods
    assert pamt is not None
    assert pamt.name == "PAMT"


@pytest.mark.parametrize(
    ("name", "near"), [("GATT", "GAT"), ("RRGCN", "RobustGCN"), ("pamt_pluss", "PAMT_plus")]
)
def test_an_unknown_method_gets_the_closest_and_all(name: str, near: str) -> None:
    message = str(unknown_method(name))
    assert f"{name!r}" in message
    assert f"Did you mean {near!r}?" in message
    assert all(each in message for each in NAMES)
    assert "Did you mean" not in str(unknown_method("xyz"))


def test_a_file_here_comes_before_a_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = tmp_path / "shipped"
    (shipped / "baselines").mkdir(parents=True)
    (shipped / "a.yaml").write_text("")
    (shipped / "baselines" / "b.yaml").write_text("")
    monkeypatch.setattr(registry, "config_folder", lambda: shipped)
    assert find_config("configs/a.yaml") == shipped / "a.yaml"
    assert find_config("configs/baselines/b.yaml") == shipped / "baselines" / "b.yaml"
    for wrong, hint in (
        ("configs/nothing_like_it.yaml", "In that folder: configs/a.yaml."),
        ("configs/aa.yaml", "Did you mean configs/a.yaml?"),
        ("configs/baseline/b.yaml", "Did you mean configs/baselines/b.yaml?"),
        ("baselines/b.yaml", "Did you mean configs/baselines/b.yaml?"),
    ):
        with pytest.raises(InputError) as error:
            find_config(wrong)
        assert str(error.value) == f"there is no config file {wrong}. {hint}"
    for wrong in ("a.yaml", "other/a.yaml", "configs/../a.yaml", ""):
        with pytest.raises(InputError, match="there is no study"):
            find_config(wrong, "study")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.yaml").write_text("")
    assert find_config("configs/a.yaml") == Path("configs/a.yaml")
