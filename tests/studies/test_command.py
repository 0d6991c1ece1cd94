"""`pamt study` and `pamt bench` as users meet them: real processes, really killed.

Few processes serve many tests: one takes seconds to start.
"""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pamt_lightning.cli.main import main
from pamt_lightning.studies import worker as worker_module
from pamt_lightning.studies.runner import Runner
from pamt_lightning.studies.store import Store
from tests.studies.small_runs import (
    PATIENCE,
    PRETEND,
    SMALL,
    children,
    has_ended,
    wait_until,
    write_study,
)

SPLITS = [f"test{number}" for number in range(5)]
TOTAL = 2 * len(SPLITS)


@dataclass
class Ended:
    """A command that has come to its end."""

    code: int
    errors: str
    lines: int  # in runs.jsonl, when it had
    workers: list[int]


@dataclass
class Place:
    """A study and the folder of its results."""

    study: str
    folder: Path

    def args(self, *more: str) -> list[str]:
        return ["study", self.study, "--folder", str(self.folder), "--jobs", "1", *more]

    def start(self, *more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "pamt_lightning.cli.main", *self.args(*more)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            # A shell that starts tests in the background has them ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def lines(self) -> list[dict[str, Any]]:
        file = self.folder / "runs.jsonl"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def stopped(self, number: signal.Signals) -> Ended:
        """Start the study and send it a signal as soon as one more run is done."""
        before = len(self.lines())
        process = self.start()
        wait_until(lambda: len(self.lines()) > before or process.poll() is not None)
        workers = children(process.pid)
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
        for worker in workers:
            wait_until(lambda worker=worker: has_ended(worker))  # type: ignore[misc]
        return Ended(process.returncode, errors, len(self.lines()), workers)

    def table(self) -> str:
        return (self.folder / "small" / "table.csv").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Place]:
    """A study of small runs, and folders for its results by name."""
    top = tmp_path_factory.mktemp("studies")
    study = write_study(top / "small.yaml", seeds=SPLITS, reference="PAMT")
    return lambda name: Place(study, top / name)


@pytest.fixture(scope="module")
def whole(place: Callable[[str], Place]) -> Place:
    """The study, done in one go by one worker."""
    found = place("whole")
    assert main(found.args()) == 0
    return found


@pytest.fixture(scope="module")
def interrupted(place: Callable[[str], Place]) -> Ended:
    """What became of a study that was interrupted by Ctrl-C."""
    return place("broken").stopped(signal.SIGINT)


@pytest.fixture(scope="module")
def terminated(place: Callable[[str], Place], interrupted: Ended) -> Ended:
    """What became of it when it was started again and told to end."""
    return place("broken").stopped(signal.SIGTERM)


@pytest.fixture(scope="module")
def killed(place: Callable[[str], Place], terminated: Ended) -> Ended:
    """What became of it when it was started again and killed."""
    return place("broken").stopped(signal.SIGKILL)


@pytest.fixture(scope="module")
def together(place: Callable[[str], Place], killed: Ended) -> list[int]:
    """How two processes ended that went on with it at once."""
    found = place("broken")
    other = found.start()
    codes = [main(found.args())]
    _, errors = other.communicate(timeout=PATIENCE)
    assert complaints(errors) == []
    return [*codes, other.returncode]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that do not train."""
    monkeypatch.setattr(worker_module, "COMMAND", PRETEND)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def complaints(errors: str) -> list[str]:
    """Lines of standard error that do not tell of the progress."""
    return [line for line in errors.splitlines() if not line.startswith("runs: ")]


def told(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run what must be refused at once; the one line that says why."""
    capsys.readouterr()
    assert main(argv) == 2
    (line,) = complaints(capsys.readouterr().err)
    assert line.startswith(f"pamt {argv[0]}: error: ")
    return line


# Real runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, TOTAL - 2, TOTAL - 1])
def test_a_row_is_what_the_typed_fit_writes(number: int, whole: Place, tmp_path: Path) -> None:
    row = whole.lines()[number]  # all by one process: all but the first come after another run
    assert main(["fit", *row["args"], "--run_dir", str(tmp_path / "run")]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    names = ("val_acc", "val_loss", "epochs", "best_epoch")
    expected = {**results["test_metrics"], **{name: results[name] for name in names}}
    assert len(expected) == 9
    assert {name: row["metrics"][name] for name in expected} == expected
    assert row["tested_on"] == results["tested_on"]
    assert (row["method"], row["init_seed"]) == (results["method"], results["init_seed"])


def test_rows_say_what_was_found_of_edges_and_where(whole: Place) -> None:
    for row in whole.lines():
        has_mask = "mask_auc_original" in row["metrics"]
        assert has_mask == (row["method"] == "PAMT")
    context = Store(whole.folder).context()
    assert context[row["config"]]["data"]["synthetic"]["num_nodes"] == 300
    assert context[row["environment"]]["threads"] == 1


def test_a_study_leaves_its_files_and_nothing_else(whole: Place, tmp_path: Path) -> None:
    names = {path.name for path in (whole.folder / "small").iterdir()}
    assert names >= {"results.md", "report.html", "runs.csv", "table.csv"}
    top = {path.name for path in whole.folder.iterdir()}
    assert top == {"runs.jsonl", "context.jsonl", ".claims", "small"}
    assert not list(tmp_path.iterdir())
    with (whole.folder / "small" / "runs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [line["id"] for line in whole.lines()]


def test_the_same_command_again_does_nothing(
    whole: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, table = whole.lines(), whole.table()
    monkeypatch.setattr(worker_module, "COMMAND", ("-c", "raise SystemExit(1)"))
    assert main(whole.args()) == 0
    assert whole.lines() == before
    assert whole.table() == table
    assert "PAMT" in capsys.readouterr().out


@pytest.mark.parametrize("how", ["interrupted", "terminated"])
def test_ctrl_c_and_sigterm_are_one_line_and_leave_no_process(
    how: str, request: pytest.FixtureRequest
) -> None:
    ended: Ended = request.getfixturevalue(how)
    assert ended.code == 130
    progress, line, end = ended.errors.rpartition("\n\n")[0], *ended.errors.split("\n")[-2:]
    assert all(said.startswith("runs: ") for said in progress.split("\n"))
    assert end == ""
    assert line.startswith("Interrupted: ")
    assert line.endswith(f" of {TOTAL} runs are done. The same command goes on.")
    assert 1 <= ended.lines < TOTAL
    assert ended.workers  # which have ended: `stopped` waits for it


def test_a_kill_ends_the_workers_too(terminated: Ended, killed: Ended) -> None:
    assert killed.code == -signal.SIGKILL
    assert terminated.lines < killed.lines < TOTAL
    assert killed.workers


def test_a_worker_that_is_told_to_end_costs_no_run(place: Callable[[str], Place]) -> None:
    # By a batch system, say: Lightning answers in the middle of the training.
    found = place("told")
    process = found.start("--seeds", "test2")
    wait_until(lambda: len(found.lines()) == 1 or process.poll() is not None)
    (worker,) = children(process.pid)
    os.kill(worker, signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert complaints(errors) == []
    assert has_ended(worker)
    assert [row.get("error") for row in found.lines()] == [None] * 4


def test_two_at_once_share_the_work(
    together: list[int], killed: Ended, place: Callable[[str], Place]
) -> None:
    assert together == [0, 0]
    ids = [line["id"] for line in place("broken").lines()]
    assert len(ids) == TOTAL
    assert len(set(ids)) == TOTAL


def test_a_broken_study_comes_to_the_same_table(
    together: list[int], whole: Place, place: Callable[[str], Place]
) -> None:
    broken = place("broken")
    assert broken.table() == whole.table()
    rows, expected = Store(broken.folder).rows(), Store(whole.folder).rows()
    assert rows.keys() == expected.keys()
    for run_id, row in rows.items():
        for name, value in expected[run_id]["metrics"].items():
            assert name == "seconds" or row["metrics"][name] == value, name


def test_runs_that_fail_are_told_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAMT_CACHE", str(tmp_path / "empty"))
    monkeypatch.delenv("PAMT_DATA", raising=False)
    nowhere = tmp_path / "nowhere.yaml"
    nowhere.write_text("data: {dataset: cora_ml, offline: true}")
    exponent = {"option": "data.synthetic.degree_exponent", "values": [float("inf")]}
    study = write_study(
        tmp_path / "bad.yaml",
        datasets=[str(nowhere), "synthetic"],
        methods=["PTS"],
        sweeps=[
            {"option": "model.alpha", "values": [1.5, 0.1]},
            {"option": "model.lr", "values": [1e30]},
            exponent,
        ],
    )
    assert main(["study", study, "--folder", "r", "--jobs", "1"]) == 1
    rows = {
        (row["dataset"], row["option"], row["value"]): row
        for row in Store(tmp_path / "r").rows().values()
    }
    assert len(rows) == 8
    errors = {key: str(row.get("error")) for key, row in rows.items() if key[0] == "synthetic"}
    assert errors["synthetic", "model.alpha", 0.1] == "None"
    assert errors["synthetic", "data.synthetic.degree_exponent", "inf"] == "None"
    assert errors["synthetic", "model.alpha", 1.5] == "`alpha` must lie in [0.0, 1.0], got 1.5."
    assert errors["synthetic", "model.lr", 1e30].startswith("Training diverged: ")
    missing = rows[str(nowhere), "model.alpha", 0.1]["error"]
    assert "cora_ml" in missing
    assert "\n" not in missing
    shown = complaints(capsys.readouterr().err)
    assert len(shown) == 7
    assert shown[1] == (
        "failed: PTS on synthetic with model.alpha 1.5, split test0, init 0: "
        "`alpha` must lie in [0.0, 1.0], got 1.5."
    )
    assert shown[-1] == "6 runs failed; --retry tries them again."


# Runs that are only pretended --------------------------------------------------------------------


@pytest.mark.usefixtures("pretend")
def test_what_failed_is_tried_again_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["study", write_study(tmp_path / "mine.yaml", methods=["PTS"]), "--folder", "r"]
    store = Store(tmp_path / "r")
    assert main(args) == 0
    (run_id,) = store.rows()
    (tmp_path / "r" / "runs.jsonl").write_text(json.dumps({"id": run_id, "error": "no memory"}))
    assert main(args) == 1
    assert complaints(capsys.readouterr().err) == [
        "failed: PTS on synthetic, split test0, init 0: no memory",
        "1 run failed; --retry tries it again.",
    ]
    assert main([*args, "--retry"]) == 0
    assert store.rows()[run_id]["metrics"]["test_acc"] == 0.5


@pytest.mark.usefixtures("pretend")
def test_what_is_typed_narrows_a_study(tmp_path: Path) -> None:
    sweeps = [{"option": "model.lr", "values": [0.1, 0.2]}]
    study = write_study(tmp_path / "mine.yaml", sweeps=sweeps)
    args = ["study", study, "--folder", "r", "--methods", "GCN,GAT", "--seeds", "3,4"]
    assert main([*args, "--inits", "2", "--reference", "gat"]) == 0
    rows = Store(tmp_path / "r").rows().values()
    assert {row["method"] for row in rows} == {"GCN", "GAT"}
    assert {(row["split_seed"], row["init_seed"]) for row in rows} == {
        *(("3", 0), ("3", 1), ("4", 0), ("4", 1))
    }
    assert len(rows) == 2 * 2 * 4


@pytest.mark.usefixtures("pretend")
def test_points_alike_are_done_once(tmp_path: Path) -> None:
    sweeps = [
        {"option": "model.alpha", "values": [0.1, 0.2]},
        {"option": "model.num_steps", "values": [10, 12]},
    ]
    study = write_study(tmp_path / "mine.yaml", methods=["PAMT"], sweeps=sweeps)
    plain = write_study(tmp_path / "plain.yaml", methods=["PAMT"])
    assert main(["study", study, plain, "--folder", "r"]) == 0
    assert len(Store(tmp_path / "r").rows()) == 3
    with (tmp_path / "r" / "mine" / "table.csv").open(encoding="utf-8", newline="") as file:
        assert [row["runs_finished"] for row in csv.DictReader(file)] == ["1"] * 4


@pytest.mark.usefixtures("pretend")
def test_a_summary_has_the_tables_of_all_studies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    studies = [
        write_study(tmp_path / f"{name}.yaml", title=f"The {name} one", methods=methods)
        for name, methods in (("first", ["PTS", "PAMT"]), ("second", ["PAMT"]))
    ]
    args = [*studies, "--folder", "r", "--summary", "docs/all.md"]
    assert main(["study", *args]) == 0
    text = (tmp_path / "docs" / "all.md").read_text(encoding="utf-8")
    assert text.index("## The first one") < text.index("## The second one")
    title, about, _ = text.split("\n\n", 2)
    assert title == "# Results"
    assert f"written by `{shlex.join(['pamt', 'study', *args])}`" in about
    assert "All runs are done: first 2 of 2, second 1 of 1." in about
    assert about.endswith("Computed with: python 3.")
    assert "[report.html](<../r/first/report.html>)" in text
    for address in text.split("](<")[1:]:
        assert (tmp_path / "docs" / address.partition(">)")[0]).is_file(), address
    assert capsys.readouterr().out.endswith("docs/all.md\n")


@pytest.mark.usefixtures("pretend")
def test_a_summary_says_which_studies_are_not_finished(tmp_path: Path) -> None:
    both = write_study(tmp_path / "both.yaml")
    one = write_study(tmp_path / "one.yaml", methods=["PTS"])
    assert main(["study", one, "--folder", "r"]) == 0
    assert main(["study", both, one, "--folder", "r", "--report", "--summary", "all.md"]) == 0
    about = (tmp_path / "all.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert "**Not all runs are done**: both 1 of 2, one 1 of 1. The tables" in about
    assert "--report --summary all.md`" in about


def test_a_report_runs_nothing_and_needs_no_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker_module, "COMMAND", ("-c", "raise SystemExit(1)"))
    study = write_study(tmp_path / "mine.yaml", title="Nothing yet")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "runs.jsonl").touch()
    assert main(["study", study, "--folder", "r", "--report", "--threads", "999"]) == 0
    assert Store(tmp_path / "r").rows() == {}
    assert "Nothing yet" in (tmp_path / "r" / "mine" / "results.md").read_text()
    assert str(Path("r/mine/report.html")) in capsys.readouterr().out


@pytest.mark.parametrize("there", [True, False])
def test_without_matplotlib_a_study_says_that_it_drew_nothing(
    there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("pamt_lightning.studies.command.plots_available", lambda: there)
    study = write_study(tmp_path / "mine.yaml")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "runs.jsonl").touch()
    assert main(["study", study, "--folder", "r", "--report"]) == 0
    said = "no figures were drawn in r/mine: pip install 'pamt-lightning[plots]'"
    assert (said in capsys.readouterr().out) is not there


@pytest.mark.usefixtures("pretend")
def test_a_bench_is_one_configuration_on_many_splits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    bench = ["bench", "--seeds", "test2", "--inits", "2", "--folder", "r", "--jobs", "1"]
    assert main([*bench, "--model", "gat", "--model.num_heads", "3", *options]) == 0
    rows = list(Store(tmp_path / "r").rows().values())
    assert [(row["split_seed"], row["init_seed"]) for row in rows] == [
        *(("test0", 0), ("test0", 1), ("test1", 0), ("test1", 1))
    ]
    assert {row["method"] for row in rows} == {"GAT"}
    assert rows[0]["args"][:4] == ["--model", "gat", "--model.num_heads", "3"]
    (table,) = (tmp_path / "r").glob("bench_synthetic_GAT_????????/table.csv")
    assert "GAT on synthetic" in capsys.readouterr().out
    # Other splits of the same configuration belong there too, another configuration does not.
    same = ["bench", "--seeds", "test1", "--folder", "r", "--model", "GAT", *options]
    assert main([*same, "--model.num_heads", "3"]) == 0
    assert list((tmp_path / "r").glob("bench_*/table.csv")) == [table]
    assert main([*same, "--model.num_heads", "2"]) == 0
    assert len(list((tmp_path / "r").glob("bench_synthetic_GAT_????????/table.csv"))) == 2


@pytest.mark.usefixtures("pretend")
def test_a_bench_shares_the_runs_of_a_study(tmp_path: Path) -> None:
    study = write_study(tmp_path / "mine.yaml", methods=["GAT"], options={})
    assert main(["study", study, "--folder", "r"]) == 0
    args = ["--config", "configs/synthetic.yaml", "--model", "GAT", "--seeds", "test1"]
    assert main(["bench", *args, "--folder", "r"]) == 0
    assert len(Store(tmp_path / "r").rows()) == 1


@pytest.mark.usefixtures("pretend")
@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["--model", "PAMTModule"], "PAMT"),
        (["--model", "pamt_lightning.GATModule"], "GAT"),
        (["--model", "pamt-0"], "PAMT_0"),
        ([], "PAMT"),
    ],
)
def test_a_bench_takes_every_model_that_fit_takes(
    args: list[str], name: str, tmp_path: Path
) -> None:
    assert main(["bench", *args, "--seeds", "7", "--folder", "r"]) == 0
    (row,) = Store(tmp_path / "r").rows().values()
    assert row["method"] == name


@pytest.mark.usefixtures("pretend")
def test_an_interrupted_study_does_not_count_what_failed_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["study", write_study(tmp_path / "mine.yaml", seeds=["test0", "test1"]), "--folder", "r"]
    assert main(args) == 0
    file = tmp_path / "r" / "runs.jsonl"
    first, second, third, _ = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    third = {"id": third["id"], "error": "it diverged."}
    file.write_text("".join(f"{json.dumps(row)}\n" for row in (first, second, third)))

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "run", interrupt)
    capsys.readouterr()
    with pytest.raises(SystemExit, match="130"):
        main(args)
    said = capsys.readouterr().err
    assert said == "\nInterrupted: 2 of 4 runs are done. The same command goes on.\n"


def test_processes_that_cannot_start_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker_module, "COMMAND", ("-c", "raise OSError('no such library')"))
    study = write_study(tmp_path / "mine.yaml")
    words = "no run can be started: a process ended with code 1: OSError: no such library"
    assert words in told(["study", study, "--folder", "r"], capsys)
    assert Store(tmp_path / "r").rows() == {}


# What is refused at once -------------------------------------------------------------------------


def test_a_report_on_nothing_is_told_and_makes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "mine.yaml")
    said = told(["study", study, "--folder", "r", "--report"], capsys)
    assert "there is nothing to report on in r: it has no runs.jsonl" in said
    assert not (tmp_path / "r").exists()


def test_a_report_tells_of_damaged_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "mine.yaml")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "runs.jsonl").write_text('{"id": \n')
    assert main(["study", study, "--folder", "r", "--report"]) == 0
    assert "1 in all, the first in line 1; without --report those" in capsys.readouterr().err


def test_two_studies_of_one_name_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    one, two = (write_study(tmp_path / name) for name in ("mine.yaml", "other/mine.yaml"))
    assert "are named 'mine'" in told(["study", one, two, "--folder", "r"], capsys)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"dataset": ["pubmed"]}, "Did you mean 'datasets'?"),
        ({"methods": ["GATT"]}, "there is no method 'GATT'"),
        ({"datasets": ["corra"]}, "There is no data set 'corra'"),
        ({"methods": []}, "`methods` must be a list of names, got []"),
        ({"methods": ["GCN", "gcn"]}, "must name each once"),
        ({"reference": "GCN"}, "`reference` must be one of the methods"),
        ({"options": {"data.split_seed": 3}}, "takes no --data.split_seed: use --seeds"),
        ({"options": {"ckpt_path": "x"}}, "takes no --ckpt_path"),
        ({"split_options": ["seed_everything"]}, "takes no --seed_everything: use --inits"),
        (
            {"options": {"model.lrr": 0.1}},
            "mine.yaml: Option 'lrr' is not accepted. Did you mean 'lr'?",
        ),
        (
            {"sweeps": [{"option": "data.structure_nois", "values": [0.1]}]},
            "mine.yaml: unrecognized arguments: --data.structure_nois 0.1. Did you mean",
        ),
        (
            {"sweeps": [{"option": "run_dir", "values": ["x"]}]},
            "mine.yaml` takes no --run_dir",
        ),
    ],
)
def test_a_wrong_study_is_told_in_one_line(
    content: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "mine.yaml", **content)
    assert words in told(["study", study, "--folder", "r"], capsys)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.yaml"], "there is no study file nowhere.yaml"),
        (["parameters", "--methods", "PTX"], "error: --methods: there is no method 'PTX'"),
        (["parameters", "--jobs", "99"], "`jobs` × `threads` must lie in 1 to "),
        (["parameters", "--jobs", "0"], "`jobs` must be 1 or more, got 0."),
        (["parameters", "--jobs", "x"], "argument --jobs: invalid int value: 'x'."),
        (["parameters", "--datasetz", "x"], "no option --datasetz. Did you mean '--datasets'?"),
        (["parameters", "--seeds", "1,,2"], "the name of a published seed"),
        (["parameters", "--threads", "99"], "`threads` must lie in 1 to "),
        (["parameters", "--seeds", "test21"], "1 to 20 are published"),
        (["parameters", "--inits", "0"], "`inits` must be a whole number of at least 1, got 0"),
        (["parameters", "--datasets", ","], "`datasets` must be a list of names"),
        (["parameters", "--reference", "GCN"], "`reference` must be one of the methods (PAMT)"),
    ],
)
def test_a_wrong_option_of_a_study_is_told_in_one_line(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in told(["study", *args], capsys)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--jobs", "99"], "`jobs` × `threads`"),
        (["--inits", "0"], "`inits` must be a whole number of at least 1, got 0"),
        (["--seeds", "x"], "must be a number"),
        (["--data.split_seed", "3"], "`pamt bench` takes no --data.split_seed: use --seeds"),
        (["--seed_everything=3"], "`pamt bench` takes no --seed_everything: use --inits"),
        (["--ckpt_path", "last"], "`pamt bench` takes no --ckpt_path."),
        (["--data.path", "nowhere"], "there is no file or folder nowhere"),
        (["--model", "GATT"], "there is no method 'GATT'"),
        (["--model.lrr", "1"], "pamt bench: error: Option 'lrr' is not accepted."),
    ],
)
def test_a_wrong_option_of_a_bench_is_told_in_one_line(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in told(["bench", *args], capsys)


def test_data_of_one_s_own_that_is_not_there_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"data": {"path": "gone"}}))
    study = write_study(tmp_path / "mine.yaml", datasets=["own.yaml"])
    assert "there is no file or folder gone" in told(["study", study], capsys)


def test_ctrl_c_before_anything_runs_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pamt_lightning.studies.command.read_study", interrupt)
    assert main(["study", "parameters"]) == 130
    assert capsys.readouterr().err == "\npamt study: interrupted.\n"
