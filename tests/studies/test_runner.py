"""The runner with real worker processes that only pretend to train."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies import runner as runner_module
from pamt_lightning.studies import worker as worker_module
from pamt_lightning.studies.progress import Clock
from pamt_lightning.studies.runner import Runner, check_jobs
from pamt_lightning.studies.store import Store
from pamt_lightning.studies.worker import Worker
from tests.studies.small_runs import (
    PATIENCE,
    PRETEND,
    has_ended,
    made_up_run,
    wait_until,
)


@pytest.fixture(autouse=True)
def _pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "COMMAND", PRETEND)
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
        assert (tally.done, tally.failed) == (3, {})
        tally = runner.run([*runs, made_up_run("d")])
        assert (tally.done, tally.failed) == (1, {})
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
    assert row["wall_seconds"] < PATIENCE


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
    whats = ("is refused", "breaks", "is done")
    with Runner(store, 1) as runner:
        tally = runner.run([made_up_run(what, what) for what in whats])
    assert tally.done == 1
    assert tally.failed == {
        "is refused": "`alpha` is wrong.",
        "breaks": "KeyError: 'a bug'",
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
        assert tally.done == 0
        assert tally.failed == {"a": "`alpha` is wrong."}
        tally = runner.run([made_up_run("a"), made_up_run("b")], retry=True)
        assert (tally.done, tally.failed) == (1, {})
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


def test_the_last_words_of_a_process_are_kept_and_those_of_earlier_runs_are_not(
    store: Store,
) -> None:
    runs = [made_up_run("a", "says hm"), made_up_run("b", "leaves"), made_up_run("c", "says hm")]
    with Runner(store, 1) as runner:
        tally = runner.run([*runs, made_up_run("d", "leaves free(): invalid pointer")])
    assert tally.failed == {
        "b": "its process ended with code 3.",
        "d": "its process ended with code 3: free(): invalid pointer",
    }


@pytest.mark.parametrize("what", ["is terminated", "is stopped by Lightning", "is interrupted"])
def test_a_run_that_is_stopped_from_outside_is_tried_twice_and_leaves_no_row(
    what: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, given = Worker.give, list[str]()

    def give(self: Worker, job: Any) -> None:
        given.append(job["id"])
        original(self, job)

    monkeypatch.setattr(Worker, "give", give)
    with Runner(store, 1) as runner:
        tally = runner.run([made_up_run("a", what), made_up_run("b")])
    assert given == ["a", "a", "b"]
    assert "was stopped twice" in tally.failed["a"]
    assert ids_in(store) == ["b"]


def test_a_run_that_is_stopped_once_is_done_by_another_process(
    store: Store, tmp_path: Path
) -> None:
    with Runner(store, 1) as runner:
        tally = runner.run([made_up_run("a", f"is terminated unless {tmp_path / 'sign'}")])
    assert (tally.done, tally.failed) == (1, {})
    assert ids_in(store) == ["a"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemError('no such library')", "code 1: SystemError: no such library"),
        ("import os; os.abort()", "signal 6."),
        ("raise SystemExit(0)", "code 0."),
        ("print('Hello')", "an answer that cannot be read."),
    ],
)
def test_processes_that_cannot_start_stop_the_study_and_cost_no_run(
    code: str, words: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "COMMAND", ("-c", code))
    with (
        Runner(store, 1) as runner,
        pytest.raises(InputError, match="no run can be started: a process ended") as raised,
    ):
        runner.run([made_up_run("a"), made_up_run("b")])
    assert str(raised.value).endswith(words)
    assert store.rows() == {}


@pytest.mark.parametrize(
    ("code", "words"),
    [("old", "the code has changed"), ("edited", "the config files or the data have changed")],
)
def test_what_the_id_does_not_stand_for_stops_the_study_and_costs_no_run(
    code: str, words: str, store: Store
) -> None:
    runs = [made_up_run("a"), made_up_run("b", code=code), made_up_run("c")]
    with Runner(store, 1) as runner, pytest.raises(InputError, match=words):
        runner.run(runs)
    assert ids_in(store) == ["a"]
    assert not store.is_claimed("b")


@pytest.mark.parametrize(
    ("code", "babbles"),
    [
        ("print(' {\"status\": \"do', end='')", False),
        ("import time; print(' 7 of 9', flush=True); time.sleep(1000)", True),
        ("import time; print('7{}', flush=True); time.sleep(1000)", True),
        (r"import os; os.write(1, b' \xff\xfe\n')", True),
    ],
    ids=["torn", "no JSON", "no blank", "no text"],
)
def test_an_answer_that_cannot_be_read_is_the_last_one(
    code: str, babbles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "COMMAND", ("-c", code))
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    answers: queue.Queue[Any] = queue.Queue()
    worker = Worker(tmp_path, 1, answers)
    try:
        assert answers.get(timeout=PATIENCE / 3) == (worker, None)
        assert worker.babbles is babbles
        worker._process.wait(PATIENCE / 3)
    finally:
        worker.stop()


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


def test_no_process_is_left_behind(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopError(Exception):
        pass

    def stop(*_: object) -> None:
        raise StopError

    monkeypatch.setattr(Clock, "took", stop)
    never = f"waits for {tmp_path / 'never'}"
    runs = [made_up_run("a"), made_up_run("b", never), made_up_run("c", never)]
    with Runner(store, 2) as runner:
        with pytest.raises(StopError):
            runner.run(runs)
        processes = [worker._process for worker in runner._workers]
        assert processes
    assert all(process.poll() is not None for process in processes)


def test_a_worker_ends_with_its_parent(store: Store, tmp_path: Path) -> None:
    # Also in the middle of a run, which then can be had by others.
    worker = subprocess.Popen(
        [sys.executable, *PRETEND, str(store.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert worker.stdin is not None
    run = made_up_run("a", f"waits for {tmp_path / 'never'}")
    job = runner_module.describe(run) | {"config": run.config, "retry": False}
    print(json.dumps(job), file=worker.stdin, flush=True)
    wait_until(lambda: store.is_claimed("a"))
    worker.stdin.close()
    assert worker.wait(PATIENCE) == 1
    assert has_ended(worker.pid)
    assert not store.is_claimed("a")


@pytest.mark.parametrize("cut", [None, -20], ids=["whole", "torn"])
def test_a_worker_ends_even_if_its_parent_dies_right_after_the_order_or_in_it(
    cut: int | None, store: Store, tmp_path: Path
) -> None:
    run = made_up_run("a", f"waits for {tmp_path / 'never'}")
    job = runner_module.describe(run) | {"config": run.config, "retry": False}
    command = [sys.executable, *PRETEND, str(store.folder)]
    order = (json.dumps(job) + "\n")[:cut]
    done = subprocess.run(command, input=order, text=True, timeout=PATIENCE / 3, check=False)
    assert done.returncode in (0, 1)


def test_sigterm_is_like_ctrl_c_only_while_there_are_processes(store: Store) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with Runner(store, 1):
            assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with Runner(store, 1):  # somebody else has decided
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_run_of_another_process_is_waited_for_and_not_done_again(store: Store) -> None:
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
    assert (tally.done, tally.failed) == (1, {})
    assert ids_in(store) == ["b", "a"]


@pytest.mark.parametrize("failed_before", [False, True])
def test_a_run_of_another_process_that_gives_up_is_taken_over(
    failed_before: bool, store: Store
) -> None:
    if failed_before:
        store.add({"id": "a", "error": "it diverged."})
    with Runner(store, 1) as runner:
        claim = store.claim("a", retry=failed_before)
        assert claim.__enter__()

        def give_up() -> None:
            wait_until(lambda: "b" in store.rows())
            claim.__exit__(None, None, None)

        helper = threading.Thread(target=give_up)
        helper.start()
        tally = runner.run([made_up_run("a"), made_up_run("b")], retry=failed_before)
        helper.join(PATIENCE)
    assert (tally.done, tally.failed) == (2, {})
    assert ids_in(store)[-2:] == ["b", "a"]


def test_a_run_that_another_process_tried_again_in_vain_has_failed(store: Store) -> None:
    store.add({"id": "a", "error": "it diverged."})
    with Runner(store, 1) as runner:
        claim = store.claim("a", retry=True)
        assert claim.__enter__()

        def fail() -> None:
            wait_until(lambda: "b" in store.rows())
            store.add({"id": "a", "error": "it diverged again."})
            claim.__exit__(None, None, None)

        helper = threading.Thread(target=fail)
        helper.start()
        tally = runner.run([made_up_run("a"), made_up_run("b")], retry=True)
        helper.join(PATIENCE)
    assert tally.failed == {"a": "it diverged again."}
    assert ids_in(store) == ["a", "b", "a"]


def test_what_failed_elsewhere_is_not_done_here_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Worker.give

    def after_the_other(self: Worker, job: Any) -> None:
        store.add({"id": "a", "error": "it diverged."})
        original(self, job)

    monkeypatch.setattr(Worker, "give", after_the_other)
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
    assert (tally.done, tally.failed) == (0, {})
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
    [
        (5, 1, "got 5 × 1"),
        (0, 1, "`jobs` must be 1 or more, got 0"),
        (3, 2, "got 3 × 2"),
        (1, 5, "`threads` must"),
    ],
)
def test_more_processes_than_cores_are_refused(
    jobs: int, threads: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "num_cores", lambda: 4)
    with pytest.raises(InputError, match=words):
        check_jobs(jobs, threads)
