"""The runner with real worker processes that only pretend to train."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.experiments import runner as runner_module
from pamt_lightning.experiments.expand import Run
from pamt_lightning.experiments.runner import Runner, _Worker, check_jobs
from pamt_lightning.experiments.store import Store
from tests.experiments.small_runs import (
    PATIENCE,
    PRETENDING,
    has_ended,
    made_up_run,
    wait_until,
)


@pytest.fixture(autouse=True)
def _pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "_WORKER", ("-c", PRETENDING))
    monkeypatch.setattr(runner_module, "_LOOK_AGAIN", 0.05)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def ids_in(store: Store) -> list[str]:
    """Ids in the order of the file."""
    lines = (store.folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["id"] for line in lines]


def test_each_run_is_done_once_by_one_process(store: Store) -> None:
    runs = [made_up_run(name) for name in "abac"]
    with Runner(store, 1) as runner:
        tally = runner.run(runs)
        assert (tally.done, tally.known, tally.failed) == (3, 0, {})
        tally = runner.run([*runs, made_up_run("d")])
        assert (tally.done, tally.known, tally.failed) == (1, 3, {})
    assert sorted(ids_in(store)) == ["a", "b", "c", "d"]
    assert len({row["metrics"]["process"] for row in store.rows().values()}) == 1


def test_a_row_says_what_was_run(store: Store) -> None:
    run = made_up_run("a")
    with Runner(store, 1) as runner:
        runner.run([run])
    row = store.rows()["a"]
    assert row["args"] == list(run.args)
    assert (row["dataset"], row["method"], row["option"]) == ("nowhere", "PAMT", None)
    assert (row["split_seed"], row["init_seed"]) == ("test0", 0)
    context = store.context()
    assert context[row["config"]] == run.config
    assert context[row["environment"]] == {"python": "3"}
    assert "retry" not in row


def test_runs_are_spread_over_processes(store: Store, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    runs = [made_up_run(name, f"waits for {sign}") for name in "ab"]

    def let_them_go() -> None:  # one process alone would be at one of them for ever
        wait_until(lambda: store.is_claimed("a") and store.is_claimed("b"))
        sign.touch()

    helper = threading.Thread(target=let_them_go)
    helper.start()
    with Runner(store, 2) as runner:
        assert runner.run(runs).done == 2
    helper.join(PATIENCE)
    assert len({row["metrics"]["process"] for row in store.rows().values()}) == 2


def test_a_run_that_fails_leaves_its_reason_and_the_others_go_on(store: Store) -> None:
    whats = ("is refused", "breaks", "has a wrong option", "is done")
    with Runner(store, 1) as runner:
        tally = runner.run([made_up_run(what, what) for what in whats])
    assert tally.done == 1
    assert tally.failed == {
        "is refused": "`alpha` is wrong.",
        "breaks": "KeyError: 'a bug'",
        "has a wrong option": "stopped with code 2: an option is wrong.",
    }
    rows = store.rows()
    for name, error in tally.failed.items():
        assert rows[name]["error"] == error
        assert "metrics" not in rows[name]
    assert "traceback" not in rows["is refused"]
    assert "a bug" in rows["breaks"]["traceback"]


def test_what_failed_is_tried_again_only_when_asked(store: Store) -> None:
    with Runner(store, 1) as runner:
        runner.run([made_up_run("a", "is refused"), made_up_run("b")])
        tally = runner.run([made_up_run("a"), made_up_run("b")])
        assert (tally.done, tally.known) == (0, 1)
        assert tally.failed == {"a": "`alpha` is wrong."}
        tally = runner.run([made_up_run("a"), made_up_run("b")], retry=True)
        assert (tally.done, tally.known, tally.failed) == (1, 1, {})
    assert ids_in(store) == ["a", "b", "a"]
    assert "error" not in store.rows()["a"]


def test_a_run_under_which_the_process_dies_has_failed_and_the_rest_goes_on(store: Store) -> None:
    runs = [made_up_run("a"), made_up_run("b", "dies"), made_up_run("c", "leaves")]
    with Runner(store, 1) as runner:
        tally = runner.run([*runs, made_up_run("d")])
    assert tally.done == 2
    assert tally.failed == {
        "b": "its process ended with signal 9, which often means that memory was short.",
        "c": "its process ended with code 3.",
    }
    rows = store.rows()
    assert rows["b"]["error"] == tally.failed["b"]
    assert ids_in(store) == ["a", "b", "c", "d"]
    assert len({rows[name]["metrics"]["process"] for name in "ad"}) == 2


def test_a_process_that_dies_between_two_runs_costs_none(store: Store) -> None:
    with Runner(store, 1) as runner:
        runner.run([made_up_run("a")])
        (worker,) = runner._workers
        os.kill(worker._process.pid, signal.SIGKILL)
        worker._process.wait(PATIENCE)
        tally = runner.run([made_up_run("b")])
    assert (tally.done, tally.failed) == (1, {})


def test_a_process_that_dies_without_work_disturbs_no_other(store: Store, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    with Runner(store, 2) as runner:

        def kill_the_idle() -> None:
            wait_until(lambda: "b" in store.rows() and not store.is_claimed("b"))
            (idle,) = (w for w in runner._workers if w._process.pid == process_of("b"))
            os.kill(idle._process.pid, signal.SIGKILL)
            idle._listener.join(PATIENCE)  # its end has been told
            sign.touch()

        def process_of(name: str) -> int:
            return int(store.rows()[name]["metrics"]["process"])

        helper = threading.Thread(target=kill_the_idle)
        helper.start()
        tally = runner.run([made_up_run("a", f"waits for {sign}"), made_up_run("b")])
        helper.join(PATIENCE)
    assert (tally.done, tally.failed) == (2, {})


def test_no_process_is_left_behind(store: Store, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    never = f"waits for {tmp_path / 'never'}"
    runs = [made_up_run("a"), made_up_run("b", never), made_up_run("c", never)]
    with Runner(store, 2) as runner:
        with pytest.raises(StopError):
            runner.run(runs, watch=stop)
        processes = [worker._process for worker in runner._workers]
        assert processes
    assert all(process.poll() is not None for process in processes)


def test_a_worker_ends_with_its_parent(store: Store, tmp_path: Path) -> None:
    # Also in the middle of a run, which then can be had by others.
    worker = subprocess.Popen(
        [sys.executable, "-c", PRETENDING, str(store.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert worker.stdin is not None
    run = made_up_run("a", f"waits for {tmp_path / 'never'}")
    job = runner_module.describe(run) | {"config": {}, "retry": False}
    print(json.dumps(job), file=worker.stdin, flush=True)
    wait_until(lambda: store.is_claimed("a"))
    worker.stdin.close()
    assert worker.wait(PATIENCE) == 1
    assert has_ended(worker.pid)
    assert not store.is_claimed("a")


def test_a_worker_ends_even_if_its_parent_dies_right_after_the_order(
    store: Store, tmp_path: Path
) -> None:
    run = made_up_run("a", f"waits for {tmp_path / 'never'}")
    job = runner_module.describe(run) | {"config": {}, "retry": False}
    command = [sys.executable, "-c", PRETENDING, str(store.folder)]
    done = subprocess.run(
        command, input=json.dumps(job) + "\n", text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode in (0, 1)


def test_a_run_of_another_process_is_waited_for_and_counts_as_known(store: Store) -> None:
    with Runner(store, 1) as runner:
        claim = store.claim("a")
        assert claim.__enter__()

        def finish() -> None:
            wait_until(lambda: "b" in store.rows())
            store.add({"id": "a", "metrics": {}})
            claim.__exit__(None, None, None)

        helper = threading.Thread(target=finish)
        helper.start()
        tally = runner.run([made_up_run("a", "breaks"), made_up_run("b")])
        helper.join(PATIENCE)
    assert (tally.done, tally.known, tally.failed) == (1, 1, {})
    assert ids_in(store) == ["b", "a"]


def test_a_run_of_another_process_that_gives_up_is_taken_over(store: Store) -> None:
    with Runner(store, 1) as runner:
        claim = store.claim("a")
        assert claim.__enter__()

        def give_up() -> None:
            wait_until(lambda: "b" in store.rows())
            claim.__exit__(None, None, None)

        helper = threading.Thread(target=give_up)
        helper.start()
        tally = runner.run([made_up_run("a"), made_up_run("b")])
        helper.join(PATIENCE)
    assert (tally.done, tally.known, tally.failed) == (2, 0, {})
    assert ids_in(store) == ["b", "a"]


def test_what_failed_elsewhere_is_not_done_here_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = _Worker.give

    def after_the_other(self: _Worker, run: Run, retry: bool) -> None:
        store.add({"id": "a", "error": "it diverged."})
        original(self, run, retry)

    monkeypatch.setattr(_Worker, "give", after_the_other)
    with Runner(store, 1) as runner:
        tally = runner.run([made_up_run("a")])
    assert tally.failed == {"a": "it diverged."}
    assert ids_in(store) == ["a"]


def test_a_failed_run_that_another_process_tries_again_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add({"id": "a", "error": "it diverged."})
    claim = store.claim("a", retry=True)
    assert claim.__enter__()
    original, looks = Runner._left, list[int]()

    def look(self: Runner, *args: Any) -> Any:
        found = original(self, *args)
        looks.append(len(looks))
        if len(looks) == 1:  # the other process comes to its end after our first look
            store.add({"id": "a", "metrics": {}})
            claim.__exit__(None, None, None)
        return found

    monkeypatch.setattr(Runner, "_left", look)
    with Runner(store, 1) as runner:
        tally = runner.run([made_up_run("a")], retry=True)
    assert (tally.known, tally.failed) == (1, {})
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("jobs", "threads", "expected"), [(None, 1, 4), (None, 3, 1), (4, 1, 4), (2, 2, 2)]
)
def test_there_are_as_many_processes_as_fit(
    jobs: int | None, threads: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "num_cores", lambda: 4)
    assert check_jobs(jobs, threads) == expected


@pytest.mark.parametrize(
    ("jobs", "threads", "words"),
    [(5, 1, "got 5 × 1"), (0, 1, "got 0 × 1"), (3, 2, "got 3 × 2"), (1, 5, "`threads` must")],
)
def test_more_processes_than_cores_are_refused(
    jobs: int, threads: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "num_cores", lambda: 4)
    with pytest.raises(InputError, match=words):
        check_jobs(jobs, threads)


def test_what_is_left_is_guessed_from_runs_alike() -> None:
    a, b = made_up_run("a"), made_up_run("b")
    rows = {"a": {"metrics": {"seconds": 30.0}}}
    clock = runner_module._Clock({"a": a, "b": b}, rows, jobs=2)
    tally = runner_module.Tally()
    assert clock.text([b, b, b, b], [], tally) == "left 01:00"
    clock.took(b, 90.0)
    assert clock.text([b], [b], tally) == "left 00:45"
    tally.failed["a"] = "x"
    assert clock.text([], [], tally) == "left 00:00, 1 failed"
