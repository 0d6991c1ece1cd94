from __future__ import annotations

import json
from pathlib import Path

from pamt_lightning.methods.registry import METHODS
from tests.small_run import failed, output_of


def test_the_list_names_all_and_how_to_run_one() -> None:
    lines = output_of(["methods"])[0].splitlines()
    assert [line.split()[0] for line in lines[: len(METHODS)]] == [m.name for m in METHODS]
    assert max(map(len, lines)) <= 112
    aliases = [line.split(", also ")[1] for line in lines if ", also " in line]
    assert aliases == ["LP", "RGCN", "SGCN"]
    assert any("pamt fit --config configs/cora_ml.yaml --model GAT" in line for line in lines)


def test_one_method_shows_its_file() -> None:
    first, rest = output_of(["methods", "robust-gcn"])[0].split("\n", 1)
    assert Path(first.removeprefix("# ")).read_text(encoding="utf-8") == rest
    assert "data sets" in output_of(["methods", "pamt"])[0]


def test_an_unknown_method_is_refused() -> None:
    assert "Did you mean 'GAT'?" in failed(["methods", "gatt"])


def test_programs_get_the_list_as_json() -> None:
    found = json.loads(output_of(["methods", "--json"])[0])
    assert [each["name"] for each in found] == [method.name for method in METHODS]
    assert found[0]["class_path"] == "pamt_lightning.PAMTModule"
    assert {"alias", "help", "config"} <= set(found[0])
