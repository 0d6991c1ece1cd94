from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pamt_lightning
from pamt_lightning.cli.configure import Configurator
from pamt_lightning.data.splits import TEST_SEEDS
from pamt_lightning.errors import InputError
from pamt_lightning.methods import registry
from pamt_lightning.studies import runs as runs_module
from pamt_lightning.studies.runs import (
    Run,
    compute,
    config_id,
    data_hash,
    digest,
    expand,
    outcomes,
    result_affecting,
    results_version,
)
from pamt_lightning.studies.study import Cell, Outcome, Study, Sweep
from pamt_lightning.training.config import SINCE_RESULTS, RunConfig
from tests.studies.small_runs import made_up_config


@pytest.fixture(scope="module")
def configure() -> Configurator:
    return Configurator()


def small_study(**options: Any) -> Study:
    defaults: dict[str, Any] = {
        **{"name": "small", "title": "Small", "datasets": ("synthetic",)},
        **{"methods": ("PTS", "PAMT"), "splits": ("test0",)},
    }
    return Study(**{**defaults, **options})


def first_run(configure: Configurator, threads: int = 1, **options: Any) -> Run:
    """The first run of PAMT in a study."""
    return expand(small_study(**{"methods": ("PAMT",), **options}), configure, threads)[0]


# Expansion ---------------------------------------------------------------------------------------


def test_runs_come_split_by_split_with_whole_configurations(configure: Configurator) -> None:
    study = small_study(splits=("test0", "7"), inits=(0, 1), options={"model.hidden_dim": 8})
    runs = expand(study, configure, threads=2)
    order = [(run.split_seed, run.init_seed, run.cell.method) for run in runs]
    assert order == [(s, i, m) for s in ("test0", "7") for i in (0, 1) for m in ("PTS", "PAMT")]
    last = runs[-1]
    expected = configure(["configs/synthetic.yaml"], "PAMT", study.options)
    assert last.config == expected.with_options({"data.split_seed": 7, "seed_everything": 1})
    assert last.config.model["init_args"]["hidden_dim"] == 8
    assert last.threads == 2
    row = json.loads(json.dumps(last.describe()))  # what another process receives
    assert RunConfig.from_dict(row["config"]) == last.config


def test_data_set_and_method_may_be_config_files_and_every_run_is_tested(
    configure: Configurator, tmp_path: Path
) -> None:
    data, method = str(tmp_path / "data.yaml"), str(tmp_path / "method.yaml")
    Path(data).write_text("test_after_fit: false\ndata: {dataset: synthetic, train: 3}")
    Path(method).write_text("model: {class_path: GAT, init_args: {lr: 0.125}}")
    for sweeps, lr in (((), 0.125), ((Sweep("model.lr", (0.25,)),), 0.25)):
        run = first_run(configure, datasets=(data,), methods=(method,), sweeps=sweeps)
        assert run.config.model["class_path"] == "pamt_lightning.GATModule"
        assert (run.config.model["init_args"]["lr"], run.config.data["train"]) == (lr, 3)
        assert run.config.test


def test_each_split_has_noise_of_its_own_the_same_for_all_methods(configure: Configurator) -> None:
    study = small_study(
        splits=("test3", "test7", "42"),
        sweeps=(Sweep("data.structure_noise", (0.3, 0.5)),),
        split_options=("data.noise_seed",),
    )
    runs = expand(study, configure)
    assert len({run.run_id for run in runs}) == 12
    expected = {"test3": 3, "test7": 7, "42": 2}  # a seed without a name: its position in the list
    for run in runs:
        assert run.config.data["noise_seed"] == expected[run.split_seed], run


def test_an_own_split_or_an_unknown_split_option_is_refused(
    configure: Configurator,
) -> None:
    with pytest.raises(InputError, match=r"nose_seed.*'noise_seed'"):
        expand(small_study(split_options=("data.nose_seed",)), configure)
    study = small_study(splits=("test0", "test1"), options={"data.split": "given"})
    with pytest.raises(InputError, match="PTS on synthetic has a split of its own"):
        expand(study, configure)
    assert expand(replace(study, splits=("test0",)), configure)


def test_outcomes_are_those_of_all_runs_with_a_row(configure: Configurator) -> None:
    runs = expand(small_study(splits=("test0", "test1")), configure)
    rows: dict[str, dict[str, Any]] = {
        runs[0].run_id: {"metrics": {"test_acc": 0.5}, "inference": "mask"},
        runs[1].run_id: {"metrics": {}, "views": {"graph": 0.25}},
        runs[2].run_id: {"id": "elsewhere", "metrics": {}, "other_version": True},
        runs[3].run_id: {"error": "it diverged."},
        "another": {"metrics": {}},
    }
    pts, pamt, last = Cell("synthetic", "PTS"), Cell("synthetic", "PAMT"), runs[3].run_id
    assert outcomes(runs, rows) == [
        Outcome(runs[0].run_id, pts, "test0", 0, {"test_acc": 0.5}, chosen="mask"),
        Outcome(runs[1].run_id, pamt, "test0", 0, views={"graph": 0.25}),
        Outcome("elsewhere", pts, "test1", 0, other_version=True),
        Outcome(last, pamt, "test1", 0, error="it diverged."),
    ]


# Identity ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(configure: Configurator) -> Run:
    return first_run(configure)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("model.alpha", 0.2), ("model.hidden_dim", 64), ("model.inference", "auto")),
        *(("stopping.patience", 50), ("trainer.max_epochs", 30), ("trainer.precision", "64-true")),
        *(("trainer.gradient_clip_val", 1.0), ("data.train", 10), ("data.val", 100)),
        *(("data.dataset", "cora_ml"), ("data.split", "ppnp"), ("data.scale_features", "none")),
        *(("data.structure_noise", 0.5), ("data.noise_seed", 1), ("data.batch_size", 50)),
        *(("data.synthetic.num_nodes", 300), ("data.synthetic.seed", 1)),
    ],
)
def test_an_option_that_affects_results_makes_another_run(
    option: str, value: Any, configure: Configurator, plain: Run
) -> None:
    assert first_run(configure, options={option: value}).run_id != plain.run_id


def test_options_without_effect_on_results_leave_the_run_the_same(
    configure: Configurator, plain: Run
) -> None:
    options = {
        **{"data.root": "somewhere", "data.offline": True, "model.log_every_n_epochs": 3},
        **{"trainer.logger": False, "trainer.enable_progress_bar": False},
        **{"trainer.default_root_dir": "x", "trainer.log_every_n_steps": 7},
        **{"trainer.profiler": "simple", "stopping.save_seconds": 0, "model.alpha": 0.10},
        **{"data.split_seed": "val3", "seed_everything": 9, "data.dataset": "Synthetic"},
    }
    assert first_run(configure, options=options).run_id == plain.run_id


def test_seeds_and_threads_make_another_run(configure: Configurator) -> None:
    runs = [
        first_run(configure),
        first_run(configure, splits=(str(TEST_SEEDS[0]),)),  # the number of test0
        first_run(configure, splits=("test1",)),
        first_run(configure, inits=(1,)),
        first_run(configure, threads=2),
    ]
    assert runs[0].run_id == runs[1].run_id
    assert len({run.run_id for run in runs}) == len({run.config_id for run in runs}) == 4


def test_a_point_of_a_sweep_that_is_the_configuration_is_the_run_without_it(
    configure: Configurator, plain: Run
) -> None:
    sweeps = (
        Sweep("model.alpha", (0, 0.1, 0.2)),
        Sweep("model.num_steps", (10, 12)),
        Sweep("data.structure_noise", (None, 0.5)),
    )
    swept = expand(small_study(methods=("PAMT",), sweeps=sweeps), configure)
    same = [run.cell[2:] for run in swept if run.run_id == plain.run_id]
    assert same == [("model.alpha", 0.1), ("model.num_steps", 10), ("data.structure_noise", None)]
    assert len({run.run_id for run in swept}) == 5


def test_the_configuration_stays_as_it_is() -> None:
    data = {"split_seed": "test0", "root": "x", "train": 5}
    config = replace(made_up_config(log_every_n_epochs=3), data=data)
    before = config.to_dict()
    expected = {"dataset": "synthetic", "split_seed": TEST_SEEDS[0], "train": 5}
    assert result_affecting(config)["data"] == expected
    assert config.to_dict() == before


def test_the_order_of_keys_does_not_matter() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1, "b": [1, 2]}) != digest({"a": 1, "b": [2, 1]})
    assert digest({"a": 1}) != digest({"a": "1"})
    assert digest([math.inf]) != digest([1.0])


def hash_of(**data: Any) -> str:
    return data_hash(replace(made_up_config(), data=data))


def test_own_data_are_identified_by_their_content(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "edges.csv").write_text("source,target\na,b\n")
        (tmp_path / name / "nodes.csv").write_text("id,label\na,1\nb,2\n")
    one, two = tmp_path / "one", tmp_path / "two"
    before = hash_of(path=str(one))
    assert hash_of(path=str(two)) == before
    (two / "edges.csv").write_text("source,target\nb,a\n")
    assert hash_of(path=str(two)) != before
    (one / "results").mkdir()  # the results of earlier runs may be there
    assert hash_of(path=str(one)) == before
    (one / "nodes.csv").rename(one / "vertices.csv")
    assert hash_of(path=str(one)) != before
    with_split = hash_of(path=str(two), split_path=str(two / "nodes.csv"))
    (tmp_path / "nodes.csv").write_text("other")
    assert with_split != hash_of(path=str(two))
    assert with_split != hash_of(path=str(two), split_path=str(tmp_path / "nodes.csv"))


def test_published_data_are_identified_by_their_published_hashes() -> None:
    hashes = [hash_of(dataset=name) for name in ("cora_ml", "citeseer", "synthetic")]
    assert len(set(hashes)) == 3
    assert hash_of(dataset="Cora-ML") == hashes[0]


@pytest.mark.parametrize(("key", "name"), [("path", "empty"), ("split_path", "nowhere")])
def test_missing_data_are_named(key: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=f"there is no file or folder {tmp_path / name}"):
        hash_of(**{key: str(tmp_path / name)})


def test_a_raised_results_version_makes_other_runs_of_that_method_only(
    configure: Configurator, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small_study(methods=("PAMT", "PAMT_0", "GAT"))
    before = expand(study, configure)
    changed = tuple(
        replace(method, results_version=99) if method.name == "PAMT" else method
        for method in registry.METHODS
    )
    monkeypatch.setattr(registry, "METHODS", changed)
    monkeypatch.setattr(runs_module, "METHODS", changed)
    after = expand(study, configure)
    same = [a.run_id == b.run_id for a, b in zip(before, after, strict=True)]
    assert same == [False, True, True]
    assert [run.config_id for run in before] == [run.config_id for run in after]


def version_of(class_path: str) -> object:
    return results_version(RunConfig("Mine", {"class_path": class_path, "init_args": {}}))


def test_a_class_of_the_package_has_the_version_of_its_method_by_any_path() -> None:
    version = registry.METHODS[0].results_version
    for path in ("pamt_lightning.PAMTModule", "pamt_lightning.methods.pamt.PAMTModule"):
        assert version_of(path) == version


@pytest.mark.parametrize("is_package", [False, True])
def test_a_class_from_outside_is_identified_by_its_source_and_all_results_versions(
    is_package: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, dot, home = tmp_path, "", "outside_model"
    if is_package:
        folder, dot, home = tmp_path / "outside", ".", "outside.outside_model"
        folder.mkdir()
        (folder / "__init__.py").touch()
    (folder / "outside_model.py").write_text(
        f"import json\nfrom {dot}outside_helper import FACTOR\n\n\nclass Mine:\n    pass\n"
    )
    (folder / "outside_helper.py").write_text("import outside_deeper\nFACTOR = 1\n")
    (folder / "outside_deeper.py").write_text("FACTOR = 1\n")
    (folder / "outside_other.py").write_text("NUMBER = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(folder)
    before = version_of(f"{home}.Mine")
    for name, counts in (("other", False), ("deeper", True), ("helper", True), ("model", True)):
        file = folder / f"outside_{name}.py"
        text = file.read_text()
        file.write_text(text + "MORE = 2\n")
        assert (version_of(f"{home}.Mine") != before) == counts, name
        file.write_text(text)
    changed = (replace(registry.METHODS[0], results_version=99), *registry.METHODS[1:])
    monkeypatch.setattr(runs_module, "METHODS", changed)
    assert version_of(f"{home}.Mine") != before
    for name in [name for name in sys.modules if name.startswith("outside")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("name", ["nowhere.Module", "json.NoModule"])
def test_a_class_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"there is no class {name}"):
        version_of(name)


# One run -----------------------------------------------------------------------------------------


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a training that does nothing was called with."""
    called: list[Any] = []
    record = {
        **{"val_acc": 0.5, "val_loss": math.inf, "epochs": 3, "best_epoch": 2, "seconds": 1.5},
        **{"structure_noise": None, "tested_on": "test nodes", "data_hashes": {}},
        **{"test_metrics": {"test_acc": 0.25, "test_ece": math.nan}, "environment": {"a": 1}},
    }

    def run(config: RunConfig, **options: Any) -> Any:
        called.append((config, options))
        return SimpleNamespace(record=record, model=None, datamodule=None)

    monkeypatch.setattr("pamt_lightning.training.run.run", run)
    monkeypatch.setattr(
        "pamt_lightning.studies.edges.bad_edge_metrics", lambda *_: {"mask_auc_original": 0.75}
    )
    return called


def test_a_run_is_trained_as_configured_and_its_metrics_are_finite(
    configure: Configurator, trained: list[Any]
) -> None:
    run = first_run(configure)
    answer = compute(json.loads(json.dumps(run.describe())))
    assert trained == [(run.config, {"quiet": True})]  # and no folder, so no file
    assert answer["metrics"] == {
        **{"val_acc": 0.5, "epochs": 3.0, "best_epoch": 2.0, "seconds": 1.5},
        **{"test_acc": 0.25, "mask_auc_original": 0.75},
    }
    assert answer["environment"] == {"a": 1}
    assert answer["tested_on"] == "test nodes"
    assert answer["wall_seconds"] >= 0
    assert not {"inference", "views"} & set(answer)


@pytest.mark.parametrize(
    ("method", "options"),
    [("PAMT", {"inference": "auto"}), ("PAMT_plus", {}), ("PAMT_plus", {"num_neighbours": 0})],
)
def test_a_row_keeps_what_a_method_chose_on_the_validation_nodes(
    method: str, options: dict[str, Any], configure: Configurator
) -> None:
    values = {f"model.{name}": value for name, value in {"hidden_dim": 8, **options}.items()}
    study = small_study(methods=(method,), options={"trainer.max_epochs": 4, **values})
    (row,) = (run.describe() for run in expand(study, configure))
    answer = compute(json.loads(json.dumps(row)))
    record = pamt_lightning.run(RunConfig.from_dict(row["config"]), quiet=True).record
    assert answer.get("inference") == record.get("inference")
    views = {name: view["weight"] for name, view in record.get("views", {}).items()}
    assert answer.get("views", {}) == views
    assert len(views) == (0 if method == "PAMT" else 6 if options else 8)
    assert ("test_acc_equal_weights" in answer["metrics"]) == bool(views)


@pytest.mark.usefixtures("trained")
def test_results_of_data_that_changed_meanwhile_are_outdated(
    configure: Configurator, tmp_path: Path
) -> None:
    (tmp_path / "graph").mkdir()
    edges = tmp_path / "graph" / "edges.csv"
    edges.write_text("source,target\na,b\n")
    (tmp_path / "own.yaml").write_text(f"data: {{path: {tmp_path / 'graph'}}}")
    row = first_run(configure, datasets=(str(tmp_path / "own.yaml"),)).describe()
    assert "metrics" in compute(row)
    edges.write_text("source,target\nb,a\n")
    assert "data" in compute(row)["outdated"]


def test_options_that_came_later_leave_the_identity_of_a_run_alone() -> None:
    """Else every stored result would be computed again."""

    def key(**data: Any) -> str:
        return config_id(RunConfig("PAMT", {"class_path": "c"}, data), "hash", 1)

    old = key(train=20, dataset="cora_ml")
    assert key(dataset="cora_ml", train=None) == old
    assert key(dataset="cora_ml", **SINCE_RESULTS) == old
    for changed in ({"edge_weights": False}, {"columns": "id=a"}, {"folds": 3}, {"train": 10}):
        assert key(dataset="cora_ml", **changed) != old
