import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.cli.fit_parser import FitParser
from pamt_lightning.errors import InputError
from pamt_lightning.studies import fingerprint
from pamt_lightning.studies.expand import (
    Configure,
    cell_args,
    expand,
    expand_cells,
    option_args,
    outcomes,
)
from pamt_lightning.studies.outcome import Cell, Value
from pamt_lightning.studies.study import Study, Sweep
from tests.command_line import parsed


@pytest.fixture(scope="module")
def configure() -> Configure:
    return FitParser().configuration


def small_study(**options: Any) -> Study:
    defaults: dict[str, Any] = {
        **{"name": "small", "title": "Small", "datasets": ("synthetic",)},
        **{"methods": ("PTS", "PAMT"), "splits": ("test0",)},
    }
    return Study(**{**defaults, **options})


def id_of(configure: Configure, *args: str, threads: int = 1, **options: Any) -> str:
    """The id of the first run of `pamt fit` with these arguments."""
    study = small_study(**options)
    return expand_cells([(Cell("x", "y"), list(args))], study, configure, threads)[0].run_id


def test_the_configuration_is_that_of_the_typed_command(
    configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["--config", "configs/pubmed.yaml", "--model", "PAMT_0", "--data.split_seed", "val1"]
    expected = parsed(args, capsys)
    for other in ([], ["--model", "GAT", "--model.num_heads", "3"], args):
        known = configure(other)
        assert known["model"]["class_path"].startswith("pamt_lightning.")
    for section in ("data", "stopping", "trainer", "model"):
        for key, value in expected[section].items():
            assert known[section].get(key) == value, f"{section}.{key}"


@pytest.mark.parametrize(
    "more",
    [
        *("--model.alpha 0.2", "--model.hidden_dim 64", "--model.inference auto"),
        *("--model PTS", "--model PAMT_1", "--stopping.patience 50", "--trainer.max_epochs 30"),
        *("--trainer.precision 64-true", "--trainer.gradient_clip_val 1.0"),
        *("--data.train 10", "--data.val 100", "--data.dataset cora_ml", "--data.split ppnp"),
        *("--data.scale_features none", "--data.structure_noise 0.5", "--data.noise_seed 1"),
        *("--data.synthetic.num_nodes 300", "--data.synthetic.seed 1"),
    ],
)
def test_any_option_that_matters_makes_another_run(configure: Configure, more: str) -> None:
    assert id_of(configure, *more.split()) != id_of(configure)


@pytest.mark.parametrize(
    "more",
    [
        *("--data.root somewhere", "--data.offline true", "--run_dir x", "--test_after_fit false"),
        *("--trainer.logger false", "--trainer.enable_progress_bar false"),
        *("--trainer.default_root_dir x", "--trainer.log_every_n_steps 7", "--trainer.profiler a"),
        *("--model.log_every_n_epochs 3", "--stopping.save_seconds 0"),
        *("--data.split_seed val3", "--seed_everything 9", "--model PAMT", "--model.alpha 0.10"),
    ],
)
def test_what_changes_no_result_leaves_the_run_what_it_is(configure: Configure, more: str) -> None:
    assert id_of(configure, *more.split()) == id_of(configure)


def test_split_initialisation_and_threads_make_another_run(configure: Configure) -> None:
    ids = [
        id_of(configure),
        id_of(configure, splits=("2144199730",)),
        id_of(configure, splits=("test1",)),
        id_of(configure, inits=(1,)),
        id_of(configure, threads=2),
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


def test_own_data_makes_another_run_when_its_content_changes(
    configure: Configure, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "edges.csv").write_text("source,target\na,b\n")
    args = ("--data.path", str(folder))
    before = id_of(configure, *args)
    assert id_of(configure, *args) == before
    (folder / "edges.csv").write_text("source,target\nb,a\n")
    assert id_of(configure, *args) != before


def test_code_makes_another_run_but_only_of_its_own_method(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [id_of(configure), id_of(configure, "--model", "GAT")]
    original = fingerprint._source

    def changed(module: str) -> str:
        more = "CHANGED = 1\n" if module == "pamt_lightning.methods.pamt" else ""
        return original(module) + more

    monkeypatch.setattr(fingerprint, "_source", changed)
    for cached in (fingerprint.code_version, fingerprint._tree):
        cached.cache_clear()
    after = [id_of(configure), id_of(configure, "--model", "GAT")]
    for cached in (fingerprint.code_version, fingerprint._tree):
        cached.cache_clear()
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_a_point_of_a_sweep_that_is_the_configuration_is_the_run_without_it(
    configure: Configure,
) -> None:
    plain = expand(small_study(methods=("PAMT",)), configure)
    sweeps = (
        Sweep("model.alpha", (0, 0.1, 0.2)),
        Sweep("model.num_steps", (10, 12)),
        Sweep("data.structure_noise", (None, 0.5)),
    )
    swept = expand(small_study(methods=("PAMT",), sweeps=sweeps), configure)
    same = [run.cell[2:] for run in swept if run.run_id == plain[0].run_id]
    assert same == [
        ("model.alpha", 0.1),
        ("model.num_steps", 10),
        ("data.structure_noise", None),
    ]
    assert len({run.run_id for run in swept}) == 5


def test_studies_share_the_runs_that_they_have_in_common(configure: Configure) -> None:
    main = expand(small_study(splits=("test0", "test1")), configure)
    part = expand(small_study(methods=("PAMT", "GCN"), splits=("test1",)), configure)
    assert {run.run_id for run in main} & {run.run_id for run in part} == {part[0].run_id}


def test_runs_come_split_by_split_and_can_be_typed(configure: Configure) -> None:
    study = small_study(splits=("test0", "7"), inits=(0, 1), options={"model.hidden_dim": 8})
    runs = expand(study, configure)
    order = [(run.split_seed, run.init_seed, run.cell.method) for run in runs]
    assert order == [(s, i, m) for s in ("test0", "7") for i in (0, 1) for m in ("PTS", "PAMT")]
    assert " ".join(runs[-1].args) == (
        "--config configs/synthetic.yaml --model PAMT --model.hidden_dim 8 "
        "--data.split_seed 7 --seed_everything 1"
    )
    config = configure(list(runs[-1].args))
    assert config["seed_everything"] == 1
    assert config["model"]["init_args"]["hidden_dim"] == 8


def test_each_split_has_noise_of_its_own_the_same_for_all_methods(configure: Configure) -> None:
    study = small_study(
        splits=("test3", "test7", "42"),
        sweeps=(Sweep("data.structure_noise", (0.3, 0.5)),),
        split_options=("data.noise_seed",),
    )
    runs = expand(study, configure)
    seeds = {run.run_id: configure(list(run.args))["data"]["noise_seed"] for run in runs}
    assert len(seeds) == 12
    expected = {"test3": 3, "test7": 7, "42": 2}  # a seed without a name: its place in the list
    for run in runs:
        assert seeds[run.run_id] == expected[run.split_seed], run


def test_a_split_that_no_seed_changes_is_not_counted_twice(configure: Configure) -> None:
    study = small_study(splits=("test0", "test1"), options={"data.split": "given"})
    with pytest.raises(InputError, match="has a split of its own, which no seed changes"):
        expand(study, configure)
    assert expand(replace(study, splits=("test0",)), configure)


def test_a_split_option_that_is_none_is_told_before_anything_runs(
    configure: Configure,
) -> None:
    with pytest.raises(InputError, match=r"--data\.nose_seed 0\. Did you mean 'noise_seed'\?$"):
        expand(small_study(split_options=("data.nose_seed",)), configure)


def test_a_method_in_a_file_is_laid_over_the_data_set_s(tmp_path: Path) -> None:
    file = str(tmp_path / "own.yaml")
    assert cell_args(small_study(), Cell("pubmed", file)) == [
        *("--config", "configs/pubmed.yaml", "--config", file)
    ]
    assert cell_args(small_study(), Cell("own_data.yml", "GAT", "model.lr", 0.1)) == [
        *("--config", "own_data.yml", "--model", "GAT", "--model.lr", "0.1")
    ]


def test_options_are_written_as_they_are_typed() -> None:
    values: dict[str, Value] = {
        "a": "word",
        "b": True,
        "c": None,
        "d": 1e-05,
        "e": 3,
        "f": math.inf,
    }
    assert option_args(values) == [
        *("--a", "word", "--b", "true", "--c", "null", "--d", "1e-05", "--e", "3", "--f", ".inf")
    ]


def test_outcomes_know_what_was_chosen(configure: Configure) -> None:
    runs = expand(small_study(), configure)
    rows: dict[str, dict[str, Any]] = {run.run_id: {"metrics": {}} for run in runs}
    rows[runs[1].run_id]["inference"] = "mask"
    assert [outcome.chosen for outcome in outcomes(runs, rows)] == [None, "mask"]


def test_outcomes_are_those_of_all_runs_that_are_done(configure: Configure) -> None:
    runs = expand(small_study(splits=("test0", "test1")), configure)
    rows: dict[str, dict[str, Any]] = {
        runs[0].run_id: {"metrics": {"test_acc": 0.5}},
        runs[3].run_id: {"error": "it diverged."},
        "another": {"metrics": {}},
    }
    done, failed = outcomes(runs, rows)
    assert (done.cell, done.split_seed, done.init_seed) == (Cell("synthetic", "PTS"), "test0", 0)
    assert (done.metrics, done.error) == ({"test_acc": 0.5}, None)
    assert (failed.run_id, failed.split_seed) == (runs[3].run_id, "test1")
    assert (failed.metrics, failed.error) == ({}, "it diverged.")
