"""`pamt study` and `pamt bench` as users meet them: real processes, really killed.

Few processes serve many tests: one that trains takes seconds to start.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.cli import study as study_command
from pamt_lightning.cli.main import main
from pamt_lightning.studies.results import Results
from pamt_lightning.studies.runner import Runner
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.run import run
from tests.small_run import failed, rows_of
from tests.studies.small_runs import (
    PATIENCE,
    SMALL,
    fail_to_start,
    has_ended,
    pretend,
    wait_until,
    workers_of,
    write_study,
)

pytestmark = pytest.mark.usefixtures("elsewhere")

SPLITS = [f"test{number}" for number in range(4)]
TOTAL = 2 * len(SPLITS)


class Place:
    """The study of small runs and a folder for its results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "r"
        study = write_study(folder / "small.yaml", seeds=SPLITS, reference="PAMT")
        self.args = ["study", study, "--folder", str(self.folder), "--jobs", "1"]

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pamt_lightning.cli.main", *self.args],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that starts tests in the background has them ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            start_new_session=True,
        )

    def lines(self) -> list[dict[str, Any]]:
        file = self.folder / "runs.jsonl"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def stop(self, number: signal.Signals) -> tuple[int, list[str], int]:
        """Start the study and send it a signal as soon as one more run is done.

        Returns:
            Its exit code, complaints and the number of lines in runs.jsonl; its worker has ended.
        """
        before = len(self.lines())
        process = self.start()
        wait_until(lambda: len(self.lines()) > before or process.poll() is not None)
        workers = workers_of(process.pid)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does: the workers get it too
        else:
            process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
        (worker,) = workers
        wait_until(lambda: has_ended(worker))
        return process.returncode, complaints(errors), len(self.lines())

    def table(self) -> str:
        return (self.folder / "small" / "table.csv").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The study, computed in one go by one worker."""
    found = Place(tmp_path_factory.mktemp("studies"))
    assert main(found.args) == 0
    return found


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that do not train."""
    monkeypatch.setattr(study_command, "WORK", pretend)
    monkeypatch.setattr(study_command, "PREPARE", None)


def rows() -> list[dict[str, Any]]:
    """The results in the folder "r"."""
    return list(Results(Path("r")).rows().values())


def complaints(errors: str) -> list[str]:
    """Lines of standard error that do not report the progress."""
    return [line for line in errors.splitlines() if line and not line.startswith("runs: ")]


# Real runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, TOTAL - 1])
def test_a_row_is_what_a_run_of_its_configuration_gives(number: int, whole: Place) -> None:
    row = whole.lines()[number]  # all by one process: the last one comes after all others
    record = run(RunConfig.from_dict(row["config"]), quiet=True).record
    names = ("val_acc", "val_loss", "epochs", "best_epoch")
    expected = {**record["test_metrics"], **{name: record[name] for name in names}}
    assert len(expected) == 9
    assert {name: row["metrics"][name] for name in expected} == expected
    assert row["tested_on"] == record["tested_on"]
    assert (row["method"], row["init_seed"]) == (record["method"], record["init_seed"])
    assert row["environment"]["threads"] == 1
    assert ("mask_auc_original" in row["metrics"]) == (row["method"] == "PAMT")


def test_a_study_leaves_its_files_and_the_same_command_computes_nothing(
    whole: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, table = whole.lines(), whole.table()
    monkeypatch.setattr(study_command, "PREPARE", fail_to_start)
    assert main(whole.args) == 0
    assert (whole.lines(), whole.table()) == (before, table)
    assert {path.name for path in whole.folder.iterdir()} == {"runs.jsonl", ".claims", "small"}
    assert not list(tmp_path.iterdir())
    rows = rows_of(whole.folder / "small" / "runs.csv")
    assert [row["id"] for row in rows] == [line["id"] for line in before]


def test_an_interrupted_study_ends_cleanly_and_resumes_to_the_same_table(
    whole: Place, tmp_path: Path
) -> None:
    broken = Place(tmp_path)
    code, (line,), first = broken.stop(signal.SIGINT)
    assert code == 130
    assert line.startswith(f"pamt study: interrupted, {first} of {TOTAL} runs are done")
    code, _, second = broken.stop(signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert 1 <= first < second < TOTAL
    # Two commands at once share the rest, and a worker that is asked to end costs no run.
    other = broken.start()
    wait_until(lambda: len(broken.lines()) > second or other.poll() is not None)
    for worker in workers_of(other.pid):
        os.kill(worker, signal.SIGTERM)
    assert main(broken.args) == 0
    _, errors = other.communicate(timeout=PATIENCE)
    assert (other.returncode, complaints(errors)) == (0, [])
    ids = [line["id"] for line in broken.lines()]
    assert len(ids) == len(set(ids)) == TOTAL
    assert broken.table() == whole.table()
    found, expected = Results(broken.folder).rows(), Results(whole.folder).rows()
    assert found.keys() == expected.keys()
    for run_id, row in found.items():
        for name, value in expected[run_id]["metrics"].items():
            assert name == "seconds" or row["metrics"][name] == value, name


def test_failed_runs_are_reported_and_the_others_continue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAMT_CACHE", str(tmp_path / "empty"))
    monkeypatch.delenv("PAMT_DATA", raising=False)
    Path("nowhere.yaml").write_text("data: {dataset: cora_ml, offline: true}")
    study = write_study(
        tmp_path / "bad.yaml",
        datasets=["nowhere.yaml", "synthetic"],
        methods=["PTS"],
        sweeps=[
            {"option": "model.alpha", "values": [1.5, 0.1]},
            {"option": "model.lr", "values": [1e30]},
            {"option": "data.synthetic.degree_exponent", "values": [float("inf")]},
        ],
    )
    assert main(["study", study, "--folder", "r", "--jobs", "1"]) == 1
    errors = {(row["dataset"], row["option"], row["value"]): row.get("error", "") for row in rows()}
    assert errors["synthetic", "model.alpha", 0.1] == ""
    assert errors["synthetic", "data.synthetic.degree_exponent", "inf"] == ""
    assert "`alpha`" in errors["synthetic", "model.alpha", 1.5]
    assert "diverged" in errors["synthetic", "model.lr", 1e30]
    assert "cora_ml" in errors["nowhere.yaml", "model.alpha", 0.1]
    *shown, last = complaints(capsys.readouterr().err)
    assert len(shown) == 6
    facts = ("failed: PTS on synthetic with model.alpha 1.5, split test0, init 0: ", "got 1.5")
    assert any(all(fact in line for fact in facts) for line in shown)
    assert "6 runs failed; --retry" in last


# Runs that only pretend --------------------------------------------------------------------------


@pytest.mark.usefixtures("pretended")
def test_a_failed_run_is_not_done_and_is_repeated_by_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["study", write_study(tmp_path / "mine.yaml", seeds=["test0", "test1"]), "--folder", "r"]
    assert main(args) == 0
    first, second, third, _ = rows()
    kept = (first, second, {"id": third["id"], "error": "no memory"})
    Path("r/runs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in kept))

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(Runner, "run", interrupt)
        assert main(args) == 130
    assert "2 of 4 runs are done" in capsys.readouterr().err
    assert main(args) == 1
    line, hint = complaints(capsys.readouterr().err)
    where = f"{third['method']} on synthetic, split {third['split_seed']}, init 0"
    assert line == f"failed: {where}: no memory"
    assert "1 run failed" in hint
    assert main([*args, "--retry"]) == 0
    assert [row["metrics"]["test_acc"] for row in rows()] == [0.5] * 4


@pytest.mark.usefixtures("pretended")
def test_a_summary_has_the_tables_of_all_studies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_study(tmp_path / "first.yaml", title="The first one")
    second = write_study(tmp_path / "second.yaml", title="The second one", methods=["PAMT"])
    assert main(["study", second, "--folder", "r"]) == 0
    args = [first, second, "--folder", "r", "--summary", "docs/all.md"]
    for more, counts in ((["--report"], "first 1 of 2"), ([], "first 2 of 2")):
        assert main(["study", *args, *more]) == 0
        text = Path("docs/all.md").read_text(encoding="utf-8")
        about = text.split("\n\n")[1]
        assert f"{counts}, second 1 of 1" in about
    assert text.index("## The first one") < text.index("## The second one")
    assert shlex.join(["pamt", "study", *args]) in about
    assert "python 3" in about
    assert capsys.readouterr().out.endswith("docs/all.md\n")


@pytest.mark.usefixtures("pretended")
def test_a_report_may_use_runs_of_another_results_version(tmp_path: Path) -> None:
    args = ["study", write_study(tmp_path / "mine.yaml"), "--methods", "PTS", "--folder", "r"]
    assert "--any-version" in failed([*args, "--any-version"])
    assert not Path("r").exists()
    assert main(args) == 0
    (row,) = rows()
    Path("r/runs.jsonl").write_text(json.dumps({**row, "id": "of another version"}) + "\n")
    for option, expected in (("--report", "0"), ("--any-version", "1"), ("--any-code", "1")):
        assert main([*args, "--report", option]) == 0
        assert rows_of("r/mine/table.csv")[0]["runs_finished"] == expected


@pytest.mark.parametrize("has_plots", [True, False])
def test_a_report_runs_nothing_and_needs_no_cores(
    has_plots: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(study_command, "PREPARE", fail_to_start)
    monkeypatch.setattr(study_command, "plots_available", lambda: has_plots)
    study = write_study(tmp_path / "mine.yaml", title="Nothing yet")
    args = ["study", study, "--folder", "r", "--report", "--threads", "999"]
    assert "runs.jsonl" in failed(args)
    assert not Path("r").exists()
    Path("r").mkdir()
    old = {"id": "0" * 16, "config": "a key", "environment": "of an earlier version"}
    Path("r/runs.jsonl").write_text(f'{{"id": \n{json.dumps(old)}\n')
    assert main(args) == 0
    assert "Nothing yet" in Path("r/mine/results.md").read_text()
    captured = capsys.readouterr()
    assert str(Path("r/mine/report.html")) in captured.out
    assert ("pamt-lightning[plots]" in captured.out) is not has_plots
    assert "1 line cannot be read, the first is line 1" in captured.err


@pytest.mark.usefixtures("pretended")
def test_a_bench_is_one_configuration_on_many_splits(capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    bench = ["bench", "--folder", "r", "--jobs", "1", *options, "--model"]
    assert main([*bench, "gat", "--model.num_heads", "3", "--seeds", "test2", "--inits", "2"]) == 0
    assert [(row["split_seed"], row["init_seed"]) for row in rows()] == [
        *(("test0", 0), ("test0", 1), ("test1", 0), ("test1", 1))
    ]
    assert {row["method"] for row in rows()} == {"GAT"}
    config = rows()[0]["config"]
    assert config["model"]["init_args"]["num_heads"] == 3
    assert config["data"]["synthetic"]["num_nodes"] == 300
    (table,) = Path("r").glob("bench_synthetic_GAT_????????/table.csv")
    assert "GAT on synthetic" in capsys.readouterr().out
    # Other splits of the same configuration belong there too, another configuration does not.
    assert main([*bench, "GAT", "--model.num_heads", "3", "--seeds", "test1"]) == 0
    assert list(Path("r").glob("bench_*/table.csv")) == [table]
    assert main([*bench, "GAT", "--model.num_heads", "2", "--seeds", "test1"]) == 0
    assert len(list(Path("r").glob("bench_synthetic_GAT_????????/table.csv"))) == 2


@pytest.mark.usefixtures("pretended")
def test_a_bench_shares_the_runs_of_a_study(tmp_path: Path) -> None:
    study = write_study(tmp_path / "mine.yaml", methods=["GAT"], options={})
    assert main(["study", study, "--folder", "r"]) == 0
    args = ["--config", "configs/synthetic.yaml", "--model", "GAT", "--seeds", "test1"]
    assert main(["bench", *args, "--folder", "r"]) == 0
    assert len(rows()) == 1


# What is refused ---------------------------------------------------------------------------------


def test_a_list_of_studies_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ablation", "main", "noise", "parameters"]


def test_two_studies_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, two = (write_study(tmp_path / name) for name in ("mine.yaml", "other/mine.yaml"))
    assert "named 'mine'" in failed(["study", one, two, "--folder", "r"])
    assert not Path("r").exists()


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ({"options": {"data.split_seed": 3}}, ["--data.split_seed", "--seeds"]),
        ({"options": {"ckpt_path": "x"}}, ["--ckpt_path"]),
        ({"split_options": ["seed_everything"]}, ["--seed_everything", "--inits"]),
        ({"sweeps": [{"option": "run_dir", "values": ["x"]}]}, ["--run_dir"]),
        ({"options": {"model.lrr": 0.1}}, ["lrr", "'lr'?"]),
        ({"sweeps": [{"option": "model.lr", "values": ["fast"]}]}, ["model.lr", "'fast'"]),
        ({"datasets": ["own.yaml"]}, ["gone"]),
    ],
)
def test_a_wrong_study_is_reported_in_one_line(
    content: dict[str, Any], facts: list[str], tmp_path: Path
) -> None:
    Path("own.yaml").write_text("data: {path: gone}")
    study = write_study(tmp_path / "mine.yaml", **content)
    line = failed(["study", study, "--folder", "r"])
    assert all(fact in line for fact in ("mine.yaml", *facts)), line
    assert not Path("r").exists()


@pytest.mark.parametrize(
    ("args", "facts"),
    [
        (["study", "nowhere.yaml"], ["nowhere.yaml"]),
        (["study", "parameters", "--jobs", "x"], ["--jobs", "'x'"]),
        (["study", "parameters", "--datasetz", "x"], ["--datasetz", "'--datasets'?"]),
        (["study", "parameters", "--datasets", ","], ["--datasets", "list of names"]),
        (["study", "parameters", "--jobs", "99"], ["`jobs`", "got 99"]),
        (["bench", "--jobs", "99"], ["`jobs`", "got 99"]),
        (["bench", "--seeds", "x"], ["`seeds`", "'x'"]),
        (["bench", "--data.split_seed", "3"], ["--data.split_seed", "--seeds"]),
        (["bench", "--seed_everything=3"], ["--seed_everything", "--inits"]),
        (["bench", "--ckpt_path", "last"], ["--ckpt_path"]),
        (["bench", "--data.path", "nowhere"], ["nowhere"]),
        (["bench", "--model", "GATT"], ["'GATT'", "'GAT'?"]),
        (["bench", "--model.lrr", "1"], ["--model.lrr", "'lr'?"]),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(
    args: list[str], facts: list[str], tmp_path: Path
) -> None:
    line = failed(args)
    assert all(fact in line for fact in facts), line
    assert not list(tmp_path.iterdir())
