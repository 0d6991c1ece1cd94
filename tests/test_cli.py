"""The command line as users meet it; one small run serves most tests."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from pamt_lightning.cli.main import main

SMALL = [
    *("--data.synthetic.num_nodes", "240", "--data.synthetic.num_classes", "3"),
    *("--data.synthetic.num_features", "60", "--data.synthetic.words_per_node", "8"),
    *("--data.train", "5", "--data.val", "60", "--model.hidden_dim", "8"),
    *("--model.pretrain_epochs", "5", "--trainer.max_epochs", "6"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of one finished run."""
    folder = tmp_path_factory.mktemp("run")
    assert main(["fit", *SMALL, "--run_dir", str(folder / "a"), "--seed_everything", "3"]) == 0
    return folder / "a"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def failed(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run what must fail with code 2 and without a traceback; what was printed."""
    try:
        code = main(argv)
    except SystemExit as stop:
        code = int(str(stop.code))
    captured = capsys.readouterr()
    assert code == 2
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) <= 6, captured.err
    return captured.err


def test_results_hold_what_a_comparison_needs(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert results["method"] == "PAMT"
    assert results["dataset"] == "synthetic"
    assert results["split_seed"] == 2144199730
    assert results["init_seed"] == 3
    assert results["epochs"] == 6
    assert 1 <= results["best_epoch"] <= 6
    assert 0 < results["test_acc"] <= 1
    assert 0 < results["val_acc"] <= 1
    assert results["seconds"] > 0
    assert results["environment"]["torch"] == torch.__version__
    assert results["config"]["model"]["init_args"]["hidden_dim"] == 8
    assert results["sizes"]["train"] == 15
    assert results["data_hashes"] == {}


def test_a_run_leaves_its_files_and_nothing_else(run: Path) -> None:
    names = {path.name for path in run.iterdir() if not path.name.startswith("events")}
    assert names == {"best.ckpt", "last.ckpt", "config.yaml", "hparams.yaml", "results.json"}
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert saved["model"]["init_args"]["hidden_dim"] == 8


def test_a_fit_prints_a_short_table_and_is_quiet_otherwise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    # A new process: warnings are shown once only, and pytest catches them.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pamt_lightning.cli.main", "fit", *SMALL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("PAMT on synthetic (240 nodes")
    assert len(lines) <= 13
    for word in ("split", "epochs", "val accuracy", "test accuracy", "seconds", "checkpoint"):
        assert any(line.strip().startswith(word) for line in lines), word
    assert "tensorboard --logdir lightning_logs/synthetic/PAMT" in done.stdout


def test_a_fit_says_what_was_chosen_on_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", *SMALL, "--model", "PAMT_plus"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\n +inference +(unmasked|graphless), chosen on the stopping nodes\n", shown)
    assert re.search(r"\n +random edges +up to \d+ % of the edges look drawn at random\n", shown)
    assert re.search(r"\n +seconds +[\d.]+, \d+ threads?\n", shown)
    assert main(["fit", *SMALL]) == 0
    shown = capsys.readouterr().out
    assert "inference" not in shown
    assert "random edges" not in shown


def test_test_after_fit_can_be_switched_off(tmp_path: Path) -> None:
    assert main(["fit", *SMALL, "--run_dir", "b", "--test_after_fit", "false"]) == 0
    assert json.loads((tmp_path / "b" / "results.json").read_text())["test_acc"] is None


def test_each_run_gets_a_folder_of_its_own_named_after_its_seeds(tmp_path: Path) -> None:
    for _ in range(2):
        assert main(["fit", *SMALL, "--data.split_seed", "val1", "--seed_everything", "7"]) == 0
    folder = tmp_path / "lightning_logs" / "synthetic" / "PAMT" / "split3258769933_init7"
    assert sorted(p.name for p in folder.iterdir()) == ["version_0", "version_1"]


def test_a_checkpoint_alone_is_enough_to_test_in_a_new_process(run: Path) -> None:
    command = [sys.executable, "-m", "pamt_lightning.cli.main", "test", "--ckpt_path", str(run)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    expected = json.loads((run / "results.json").read_text())["test_acc"]
    assert f"test_acc          {100 * expected:.2f} %" in done.stdout


def test_validate_scores_the_kept_state(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--ckpt_path", str(run / "best.ckpt")]) == 0
    expected = json.loads((run / "results.json").read_text())["val_acc"]
    assert f"val_acc   {100 * expected:.2f} %" in capsys.readouterr().out


def test_predictions_carry_ids_classes_and_probabilities(run: Path, tmp_path: Path) -> None:
    assert main(["predict", "--ckpt_path", str(run), "--output", "out/p.csv"]) == 0
    with open(tmp_path / "out" / "p.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["node_id"] for row in rows] == [str(i) for i in range(240)]
    probs = np.array([[float(row[f"p_class_{c}"]) for c in range(3)] for row in rows])
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-5)
    assert [row["class"] for row in rows] == [f"class_{c}" for c in probs.argmax(1)]


def write_own_graph(folder: Path, labels: list[str], seed: int) -> None:
    """30 nodes called n0 … n29 in a ring, with features that tell red from blue."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    with open(folder / "nodes.csv", "w", encoding="utf-8") as file:
        file.write("id,label,a,b\n")
        for node, label in enumerate(labels):
            a = random.random() + (1.0 if node % 2 else 0.0)
            file.write(f"n{node},{label},{a:.4f},{2.0 - a:.4f}\n")
    with open(folder / "edges.csv", "w", encoding="utf-8") as file:
        file.write("source,target\n")
        file.writelines(f"n{i},n{(i + 2) % 30}\n" for i in range(30))


def test_a_graph_of_one_s_own_is_trained_and_a_new_unlabelled_one_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own_graph(tmp_path / "mine", ["blue" if i % 2 else "red" for i in range(30)], 0)
    write_own_graph(tmp_path / "new", [""] * 30, 1)
    train = ["--data.train", "4", "--model.hidden_dim", "8", "--trainer.max_epochs", "30"]
    assert main(["fit", "--data.path", "mine", *train, "--run_dir", "r"]) == 0
    assert main(["predict", "--ckpt_path", "r", "--data.path", "new", "--output", "p.csv"]) == 0
    with open(tmp_path / "p.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["node_id"] for row in rows] == [f"n{i}" for i in range(30)]
    right = sum(row["class"] == ("blue" if i % 2 else "red") for i, row in enumerate(rows))
    assert right >= 27
    write_own_graph(tmp_path / "other", ["green"] * 30, 1)
    told = failed(["test", "--ckpt_path", "r", "--data.path", "other"], capsys)
    assert "other has class 'green', which the trained model does not know" in told


def test_data_with_other_attributes_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own_graph(tmp_path / "mine", [""] * 30, 0)
    told = failed(["predict", "--ckpt_path", str(run), "--data.path", "mine"], capsys)
    assert "was trained on 60 attributes, mine has 2" in told


@pytest.mark.parametrize("command", ["test", "validate", "predict"])
def test_nothing_runs_on_untrained_weights(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "needs a trained model: --ckpt_path" in failed([command], capsys)
    assert "there is no checkpoint best" in failed([command, "--ckpt_path", "best"], capsys)


def test_a_damaged_checkpoint_is_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (run / "best.ckpt").read_bytes()
    for name, content in (("half", whole[: len(whole) // 2]), ("empty", b""), ("text", b"hello")):
        (tmp_path / f"{name}.ckpt").write_bytes(content)
        told = failed(["test", "--ckpt_path", f"{name}.ckpt"], capsys)
        assert f"{name}.ckpt cannot be read as a checkpoint" in told
    torch.save({"state_dict": {}}, tmp_path / "foreign.ckpt")
    told = failed(["test", "--ckpt_path", "foreign.ckpt"], capsys)
    assert "foreign.ckpt is not a checkpoint of pamt" in told


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("owned",)


def test_a_checkpoint_that_holds_code_is_refused_unrun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"state_dict": {}, "model_class": Hostile()}, tmp_path / "evil.ckpt")
    assert "evil.ckpt cannot be read" in failed(["test", "--ckpt_path", "evil.ckpt"], capsys)
    assert not (tmp_path / "owned").exists()


def test_a_resumed_run_must_keep_its_options(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = str(run / "last.ckpt")
    told = failed(["fit", "--ckpt_path", last, "--model.lr", "0.5"], capsys)
    assert "was trained with model.lr = 0.05, now it is 0.5" in told
    told = failed(["fit", "--ckpt_path", last, "--data.split_seed", "5"], capsys)
    assert "data.split_seed = 2144199730, now it is 5" in told
    told = failed(["fit", "--ckpt_path", last, "--seed_everything", "9"], capsys)
    assert "was started with --seed_everything 3, not 9" in told
    told = failed(["fit", "--ckpt_path", str(run / "best.ckpt")], capsys)
    assert "a training goes on from the last.ckpt" in told


@pytest.mark.parametrize("command", ["fit", "test", "validate", "predict"])
def test_a_checkpoint_says_which_model_it_is(
    command: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "copy")
    options = ["--ckpt_path", "copy", "--config", "copy/config.yaml"]
    assert main([command, *options, "--model", "pamt"]) == 0
    capsys.readouterr()
    told = failed([command, "--ckpt_path", str(run), "--model", "gat"], capsys)
    assert "--model gat asks for GATModule, the checkpoint is of PAMTModule: leave" in told
    assert len(told.splitlines()) == 1
    (tmp_path / "gat.yaml").write_text("model: {class_path: pamt_lightning.GATModule}")
    told = failed([command, "--ckpt_path", str(run), "--config", "gat.yaml"], capsys)
    assert "gat.yaml asks for GATModule, the checkpoint is of PAMTModule" in told


def test_a_broken_config_beside_a_checkpoint_is_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("model: [")
    told = failed(["test", "--ckpt_path", str(run), "--config", "bad.yaml"], capsys)
    assert "bad.yaml, line " in told


def test_a_method_by_name_trains_goes_on_and_is_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.yaml").write_text(
        "model: {class_path: pamt_lightning.GATModule, init_args: {hidden_dim: 4}}\n"
        "by_dataset: {synthetic: {model: {init_args: {num_heads: 3}}}}\n"
    )
    options = [*SMALL[:-4], *SMALL[-2:]]  # without the pretraining, which is PAMT's
    options += ["--config", "own.yaml", "--run_dir", "g"]
    assert main(["fit", *options]) == 0
    saved = yaml.safe_load((tmp_path / "g" / "config.yaml").read_text())
    assert "by_dataset" not in saved
    assert saved["model"]["init_args"]["num_heads"] == 3
    again = ["--ckpt_path", "last", "--trainer.max_epochs", "8"]
    assert main(["fit", *options, *again]) == 0
    assert main(["fit", "--ckpt_path", "g", "--trainer.max_epochs", "9"]) == 0
    assert json.loads((tmp_path / "g" / "results.json").read_text())["epochs"] == 9
    capsys.readouterr()
    assert main(["test", "--ckpt_path", "g"]) == 0
    assert "synthetic (240 nodes" in capsys.readouterr().out


LAID_OVER = ["--config", "configs/synthetic.yaml", "--config", "configs/baselines/gat.yaml"]


def test_the_same_command_goes_on_and_tests_whatever_the_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*SMALL[:-6], "--trainer.max_epochs", "3"]  # without those of PAMT
    assert main(["fit", *options, *LAID_OVER, "--run_dir", "g"]) == 0
    tested = json.loads((tmp_path / "g" / "results.json").read_text())["test_acc"]
    assert capsys.readouterr().err == ""
    by_name = ["--config", "configs/synthetic.yaml", "--model", "GAT"]
    for more in (LAID_OVER, by_name, ["--model", "GAT"]):
        assert main(["fit", *options, *more, "--ckpt_path", "g"]) == 0
        capsys.readouterr()
        assert main(["test", *options, *more, "--ckpt_path", "g"]) == 0
        assert f"test_acc       {100 * tested:.2f} %" in capsys.readouterr().out


def test_a_config_over_a_trained_model_leaves_it_as_it_was(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = SMALL[:-6]
    (tmp_path / "alpha.yaml").write_text("model: {class_path: PAMT, init_args: {alpha: 1.0}}")
    outputs = []
    for more in ([], ["--config", "alpha.yaml"], ["--model", "PAMT_1"], ["--model.alpha", "1.0"]):
        assert main(["predict", *data, "--ckpt_path", str(run), *more, "--output", "p.csv"]) == 0
        outputs.append((tmp_path / "p.csv").read_bytes())
    assert outputs[0] == outputs[1] == outputs[2] != outputs[3]
    told = failed(["fit", "--ckpt_path", str(run), "--config", "alpha.yaml"], capsys)
    assert "was trained with model.alpha = 0.1, now it is 1.0" in told


def test_a_method_that_a_later_file_replaces_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for argv, lines in ((LAID_OVER, 0), ([*LAID_OVER[2:], *LAID_OVER[:2]], 1)):
        with pytest.raises(SystemExit):
            main(["fit", *argv, "--print_config"])
        told = capsys.readouterr().err
        assert len(told.splitlines()) == lines
    assert told == (
        "pamt fit: note: the model section of configs/baselines/gat.yaml is not used: "
        "configs/synthetic.yaml, which comes later, names another model (PAMTModule).\n"
    )


def test_a_run_folder_in_use_is_not_overwritten(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "results.json").read_bytes()
    assert "holds a run already" in failed(["fit", *SMALL, "--run_dir", str(run)], capsys)
    assert (run / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--model.hiden_dim", "3"], "Did you mean 'hidden_dim'?"),
        (["--model", "GAT", "--model.num_head", "3"], "Did you mean 'num_heads'?"),
        (["--model", "GATT"], "there is no method 'GATT'. Did you mean 'GAT'?"),
        (["--trainer.max_epoch", "3"], "Did you mean 'max_epochs'?"),
        (["--model.lr", "-1"], "`lr` must lie in [0.0, inf), got -1.0."),
        (["--model.lr", "fast"], "lr: expected a float, got fast"),
        (["--data.split", "half"], "Literal['ppnp', 'random', 'given'] (got half)"),
        (["--data.dataset", "coraml"], "Did you mean cora_ml?"),
        (["--data.path", "nowhere"], "nowhere"),
        (["--data.split_seed", "test20"], "test0 to test19"),
        (["--data.structure_noise", "1.5"], "`structure_noise` must lie in [0, 1]"),
        (["--config", "missing.yaml"], "there is no config file missing.yaml"),
        (["--seed_everything", "false"], "`seed_everything` must be a number"),
        (["--ckpt_path", "missing.ckpt"], "there is no checkpoint missing.ckpt"),
        (["--trainer.max_epochs", "0"], "nothing was trained"),
        (["--trainer.enable_checkpointing", "false"], "enable_checkpointing"),
        (["--trainer.precision", "bf16-mixed"], "32-true or 64-true"),
        (["--model.lr", "1e30", "--trainer.max_epochs", "9"], "Training diverged"),
    ],
)
def test_a_wrong_option_gets_a_few_words_that_help(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in failed(["fit", *argv], capsys)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("modle: {}", "has no section 'modle'"),
        ("model: {init_args: {hiden_dim: 3}}", "bad.yaml: Option 'hiden_dim' is not accepted"),
        ("model: {init_args: {hiden_dim: 3}}", "Did you mean 'hidden_dim'?"),
        ("trainer: {max_epoch: 3}", "Did you mean 'max_epochs'?"),
        ("data: {trian: 3}", "Did you mean 'train'?"),
        ("data: {batch_size: many}", "bad.yaml: data.batch_size: Expected a"),
        ("model: [", "bad.yaml, line 1, column 9 is not valid YAML"),
        ("just text", "must hold sections"),
        ("ckpt_path: last", "`ckpt_path` belongs on the command line"),
    ],
)
def test_a_wrong_config_names_the_file_or_the_key(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    assert words in failed(["fit", "--config", "bad.yaml"], capsys)


@pytest.mark.parametrize("scale", ["none", "l1", "standard"])
def test_scaling_of_attributes_is_kept_on_data_named_anew(tmp_path: Path, scale: str) -> None:
    labels = ["blue" if i % 2 else "red" for i in range(30)]
    write_own_graph(tmp_path / "mine", labels, 0)
    options = ["--data.train", "4", "--trainer.max_epochs", "3"]
    options += ["--data.scale_features", scale]
    assert main(["fit", "--data.path", "mine", *options, "--run_dir", "r"]) == 0
    assert main(["predict", "--ckpt_path", "r", "--output", "a.csv"]) == 0
    assert main(["predict", "--ckpt_path", "r", "--data.path", "mine", "--output", "b.csv"]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_columns_in_another_order_are_put_right_and_others_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own_graph(tmp_path / "mine", ["blue" if i % 2 else "red" for i in range(30)], 0)
    options = ["--data.train", "4", "--trainer.max_epochs", "3", "--run_dir", "r"]
    assert main(["fit", "--data.path", "mine", *options]) == 0
    rows = [line.split(",") for line in (tmp_path / "mine" / "nodes.csv").read_text().split()]
    for name, header in (("swapped", "b"), ("odd", "c")):
        (tmp_path / name).mkdir()
        shutil.copy(tmp_path / "mine" / "edges.csv", tmp_path / name)
        lines = [f"{i},{label},{b},{a}" for i, label, a, b in rows]
        lines[0] = f"id,label,{header},a"
        (tmp_path / name / "nodes.csv").write_text("\n".join(lines))
    assert main(["predict", "--ckpt_path", "r", "--output", "a.csv"]) == 0
    assert main(["predict", "--ckpt_path", "r", "--data.path", "swapped", "--output", "b.csv"]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    told = failed(["predict", "--ckpt_path", "r", "--data.path", "odd"], capsys)
    assert "trained on the columns a, b; in odd `b` is missing" in told


def test_a_refused_resume_leaves_the_run_as_it_was(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    options = ["--trainer.max_epochs", "2"]
    told = failed(["fit", "--ckpt_path", str(run), *options], capsys)
    assert "has 6 epochs behind it; `trainer.max_epochs` must not be below, got 2" in told
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_run_that_saved_nothing_cannot_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "early").mkdir()
    told = failed(["fit", "--ckpt_path", "early"], capsys)
    assert "stopped before its first save: start it without --ckpt_path" in told


def test_measurements_are_scaled_by_column(tmp_path: Path) -> None:
    # Age and income: the larger column must not drown the other one.
    folder = tmp_path / "shop"
    folder.mkdir()
    random = np.random.default_rng(0)
    lines = ["id,label,age,income"]
    for node in range(60):
        age = random.normal(30 + 20 * (node % 2), 3)
        label = "old" if node % 2 else "young"
        lines.append(f"n{node},{label},{age:.1f},{random.normal(5e4, 1e4):.0f}")
    (folder / "nodes.csv").write_text("\n".join(lines))
    edges = [f"n{i},n{(i + 7) % 60}" for i in range(60)]  # edges tell nothing
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]))
    options = ["--data.train", "10", "--trainer.max_epochs", "60", "--run_dir", "r"]
    assert main(["fit", "--data.path", "shop", *options]) == 0
    metrics = json.loads((tmp_path / "r" / "results.json").read_text())["test_metrics"]
    assert metrics["test_acc_network"] > 0.9


def test_a_checkpoint_finds_its_data_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_own_graph(tmp_path / "mine", ["blue" if i % 2 else "red" for i in range(30)], 0)
    options = ["--data.train", "4", "--trainer.max_epochs", "2", "--run_dir", "r"]
    assert main(["fit", "--data.path", "mine", *options]) == 0
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    assert main(["predict", "--ckpt_path", "../r"]) == 0


def test_a_config_without_data_leaves_the_data_of_the_checkpoint(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cpu.yaml").write_text("trainer: {accelerator: cpu}")
    assert main(["test", "--ckpt_path", str(run), "--config", "cpu.yaml"]) == 0
    assert "synthetic (240 nodes" in capsys.readouterr().out


def test_a_split_without_test_nodes_trains_and_reports_none(tmp_path: Path) -> None:
    write_own_graph(tmp_path / "mine", ["blue" if i % 2 else "red" for i in range(30)], 0)
    split = tmp_path / "split"
    split.mkdir()
    for part, nodes in (("train", range(8)), ("val", range(8, 16)), ("test", range(0))):
        (split / f"{part}.txt").write_text("".join(f"n{i}\n" for i in nodes))
    options = ["--data.split_path", "split", "--trainer.max_epochs", "3", "--run_dir", "r"]
    assert main(["fit", "--data.path", "mine", *options]) == 0
    assert json.loads((tmp_path / "r" / "results.json").read_text())["test_acc"] is None


def test_the_saved_config_starts_a_new_run_also_after_a_resume(tmp_path: Path) -> None:
    assert main(["fit", *SMALL, "--run_dir", "a"]) == 0
    again = ["--ckpt_path", "last", "--trainer.max_epochs", "8"]
    assert main(["fit", *SMALL, "--run_dir", "a", *again]) == 0
    saved = yaml.safe_load((tmp_path / "a" / "config.yaml").read_text())
    assert "ckpt_path" not in saved
    assert main(["fit", "--config", "a/config.yaml", "--run_dir", "b"]) == 0
    first, second = (json.loads((tmp_path / d / "results.json").read_text()) for d in ("a", "b"))
    assert first["test_metrics"] == second["test_metrics"]


def test_a_checkpoint_alone_is_enough_to_go_on(run: Path, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    shutil.copy(run / "last.ckpt", tmp_path / "moved")
    options = ["--seed_everything", "3", "--trainer.max_epochs", "8"]
    assert main(["fit", "--ckpt_path", "moved", *options]) == 0
    results = json.loads((tmp_path / "moved" / "results.json").read_text())
    assert results["epochs"] == 8
    assert results["config"]["model"]["init_args"]["hidden_dim"] == 8


def test_without_a_logger_the_working_folder_stays_clean(tmp_path: Path) -> None:
    assert main(["fit", *SMALL, "--run_dir", "a", "--trainer.logger", "false"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a" / "config.yaml").is_file()


def test_labels_that_are_missing_or_too_few_name_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own_graph(tmp_path / "none", [""] * 30, 0)
    told = failed(["fit", "--data.path", "none"], capsys)
    assert "nodes.csv: training needs labelled nodes of at least two classes, found 0" in told
    write_own_graph(tmp_path / "few", ["red"] * 3 + ["blue"] * 27, 0)
    told = failed(["fit", "--data.path", "few", "--data.train", "5"], capsys)
    assert "nodes.csv: Class 1 ('red') has 3 labelled nodes" in told


def test_a_checkpoint_cannot_choose_what_is_imported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = torch.load(run / "best.ckpt", weights_only=True)
    torch.save({**checkpoint, "model_class": "this.Zen"}, tmp_path / "odd.ckpt")
    assert "which is not of this package" in failed(["test", "--ckpt_path", "odd.ckpt"], capsys)
    assert "this" not in sys.modules


def test_last_without_a_checkpoint_starts_from_the_beginning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fit", *SMALL, "--ckpt_path", "last", "--run_dir", "c"]) == 0
    captured = capsys.readouterr()
    assert "starting from the beginning" in captured.err
    assert "epochs         6" in captured.out


def test_two_hundred_thousand_nodes_fit_into_a_small_memory(tmp_path: Path) -> None:
    # One matrix of n × n floats would need 160 GB.
    options = ["--data.synthetic.num_nodes", "200000", "--model.hidden_dim", "16"]
    options += ["--trainer.max_epochs", "3", "--model.refresh_interval", "2", "--run_dir", "big"]
    command = [sys.executable, "-m", "pamt_lightning.cli.main", "fit", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "big" / "results.json").read_text())
    assert results["sizes"]["nodes"] == 200_000
    assert results["epochs"] == 3
    assert results["peak_memory_mb"] < 2000
