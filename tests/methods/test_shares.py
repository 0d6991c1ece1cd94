"""Several processes that share the nodes compute what one process computes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning.training.stopping import BestStopping
from tests.methods.helpers import quiet_trainer, small_data
from tests.methods.test_every_method import new

# Every process has all predictions, so its metrics are those of the whole.
pytestmark = pytest.mark.filterwarnings("ignore:It is recommended to use .self.log")


def fitted(
    name: str, folder: Path, world_size: int, epochs: int = 12, **options: Any
) -> dict[str, Any]:
    """The last checkpoint of a training by ``world_size`` processes."""
    ckpt_path = options.pop("ckpt_path", None)
    data = small_data(batch_size=options.pop("batch_size", None))
    torch.manual_seed(0)
    model = new(name, data, **options)
    more = {"strategy": "ddp_fork", "devices": world_size} if world_size > 1 else {}
    trainer = quiet_trainer(folder, epochs, BestStopping(dirpath=str(folder)), **more)
    trainer.fit(model, datamodule=data, ckpt_path=ckpt_path)
    found: dict[str, Any] = torch.load(folder / "last.ckpt", weights_only=True)
    return found


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["epoch"] == expected["epoch"]
    for key, value in expected["state_dict"].items():
        torch.testing.assert_close(found["state_dict"][key], value, rtol=0, atol=1e-5)
    torch.testing.assert_close(found["soft_labels"], expected["soft_labels"], rtol=0, atol=1e-5)
    assert torch.equal(found["rng"]["torch"], expected["rng"]["torch"])


@pytest.mark.parametrize("batch_size", [None, 37])
@pytest.mark.parametrize("world_size", [2, 3])
def test_weights_are_those_of_one_process(
    world_size: int, batch_size: int | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"dropout": 0.3, "refresh_interval": 3, "batch_size": batch_size}
    expected = fitted("PAMT", tmp_path / "one", 1, **options)
    assert_close(fitted("PAMT", tmp_path / "many", world_size, **options), expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *[("PTS", {}), ("PTA", {}), ("PAMT_1", {})],
        *[("PAMT", {"mask_normalization": kind, "lr": 0.02}) for kind in ("row", "sym")],
    ],
)
def test_methods_with_an_mlp_can_share(name: str, options: Any, tmp_path: Path) -> None:
    expected = fitted(name, tmp_path / "one", 1, **options)
    assert_close(fitted(name, tmp_path / "two", 2, **options), expected)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_a_run_resumes_with_more_or_fewer_processes(
    before: int, after: int, tmp_path: Path
) -> None:
    # A weight decay that rises would depend on the epochs of the trainer.
    options: dict[str, Any] = {"dropout": 0.3, "weight_decay": 0.025}
    expected = fitted("PAMT", tmp_path / "whole", 1, epochs=10, **options)
    fitted("PAMT", tmp_path / "run", before, epochs=5, **options)
    last = tmp_path / "run" / "last.ckpt"
    found = fitted("PAMT", tmp_path / "run", after, epochs=10, **options, ckpt_path=last)
    assert_close(found, expected)


@pytest.mark.parametrize("name", ["GCN", "MLP", "PAMT_plus"])
def test_other_methods_refuse_several_processes(name: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="works in one process"):
        fitted(name, tmp_path, 2)
