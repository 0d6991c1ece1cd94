"""Every method still computes what it did: the guard of `results_version`.

``tests/fixtures/reference/expected.json`` holds the results of the runs whose configurations are
beside it; ``tests/fixtures/results_versions.json`` holds the version of each method's results that
these numbers belong to. The tolerance is wide enough for another processor.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from pamt_lightning import RunConfig, run
from pamt_lightning.methods.registry import METHODS

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSIONS = json.loads((FIXTURES / "results_versions.json").read_text())
EXPECTED: dict[str, dict[str, Any]] = json.loads((FIXTURES / VERSIONS["reference"]).read_text())
ACCURACY, PROBABILITY = 0.03, 0.02


def test_every_method_has_a_reference() -> None:
    names = {method.name for method in METHODS}
    assert set(VERSIONS["results_versions"]) == set(EXPECTED) == names


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_results_are_those_of_the_reference(method: Any) -> None:
    stored = VERSIONS["results_versions"][method.name]
    assert method.results_version == stored, (
        f"results_version of {method.name} is {method.results_version}, the reference is of "
        f"{stored}: renew its numbers in {VERSIONS['reference']} and its version in "
        "results_versions.json."
    )
    folder = (FIXTURES / VERSIONS["reference"]).parent / method.name
    content = yaml.safe_load((folder / "config.yaml").read_text())
    result = run(replace(RunConfig.from_dict(content), method=method.name), quiet=True)
    probs = result.trainer.predict(result.model, datamodule=result.datamodule)[0]  # type: ignore[index]
    expected = EXPECTED[method.name]
    differing = [
        f"{name} was {expected[name]}, now {result.record[name]}"
        for name in ("val_acc", "test_acc")
        if abs(expected[name] - result.record[name]) > ACCURACY
    ]
    nodes = [int(node) for node in expected["predictions"]]
    assert torch.is_tensor(probs)
    difference = probs[nodes] - torch.tensor(list(expected["predictions"].values()))
    if difference.abs().max() > PROBABILITY:
        differing.append(f"predictions differ by {difference.abs().max():.3f}")
    assert not differing, (
        f"{method.name}: {'; '.join(differing)}. If that is intended, raise `results_version` of "
        f"{method.name} in methods/registry.py and renew the reference."
    )
