"""The local executor with real processes that only pretend to train."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import active_children
from pathlib import Path

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies.executor import Finished, LocalExecutor
from tests.studies.small_runs import (
    PATIENCE,
    fail_to_start,
    has_ended,
    made_up_run,
    pretend,
    wait_until,
    workers_of,
)


def submit(executor: LocalExecutor, name: str, what: str = "") -> None:
    executor.submit(name, made_up_run(name, what).describe())


def next_finished(executor: LocalExecutor) -> Finished:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := executor.wait(0.5):
            return found[0]
    pytest.fail("waited in vain")


def result_of(executor: LocalExecutor, what: str = "") -> Finished:
    submit(executor, what, what)
    return next_finished(executor)


def process_of(finished: Finished) -> int:
    return int(finished.answer["metrics"]["process"])


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """One executor for all tests that leave it as it was: two processes at most."""
    with closing(LocalExecutor(pretend, 2, threads=3)) as found:
        yield found


def test_a_process_computes_jobs_one_after_the_other(executor: LocalExecutor) -> None:
    first, second = result_of(executor), result_of(executor, "print hello")
    assert (first.job_id, second.job_id) == ("", "print hello")
    assert process_of(first) == process_of(second) != os.getpid()
    assert first.answer["environment"]["threads"] == "3"
    assert os.environ.get("OMP_NUM_THREADS") != "3"


def test_jobs_are_spread_over_processes_and_workers_print_nothing(
    executor: LocalExecutor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    submit(executor, "a", f"wait {tmp_path / 'sign'}")
    second = result_of(executor, "print hello")  # one process alone would never come to it
    assert executor.wait(0.05) == []
    (tmp_path / "sign").touch()
    assert process_of(next_finished(executor)) != process_of(second)
    assert capfd.readouterr() == ("", "")


def test_an_error_is_an_answer(executor: LocalExecutor) -> None:
    refused, broken = result_of(executor, "refuse"), result_of(executor, "break")
    assert refused == ("refuse", {"error": "`alpha` is wrong."}, False)
    assert broken.answer["error"] == "KeyError: 'a bug'"
    assert "small_runs.py" in broken.answer["traceback"]


def test_a_dead_worker_fails_its_own_job_only(executor: LocalExecutor, tmp_path: Path) -> None:
    submit(executor, "other", f"wait {tmp_path / 'sign'}")
    jobs = ("kill 9", "print hm", "exit", "exit free(): invalid pointer", "")
    killed, printed, ended, crashed, after = (
        result_of(executor, what).answer.get("error", "") for what in jobs
    )
    (tmp_path / "sign").touch()
    assert next_finished(executor).answer["metrics"]["test_acc"] == 0.5
    assert "signal 9" in killed
    assert "memory" in killed
    assert ended == "its process ended with code 3."  # not with the message of an earlier job
    assert crashed == "its process ended with code 3: free(): invalid pointer"
    assert printed == after == ""


@pytest.mark.parametrize("what", ["kill 15", "interrupt"])
def test_a_job_whose_worker_is_stopped_from_outside_has_not_failed(
    what: str, executor: LocalExecutor
) -> None:
    assert result_of(executor, what).stopped


def test_a_worker_that_dies_while_it_is_idle_fails_no_job(executor: LocalExecutor) -> None:
    process = process_of(result_of(executor))
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: process not in [child.pid for child in active_children()])
    process = process_of(result_of(executor))
    os.kill(process, signal.SIGSTOP)  # it lives, but takes no job
    submit(executor, "b")
    os.kill(process, signal.SIGKILL)
    found = next_finished(executor)
    assert (found.job_id, found.stopped) == ("b", True)


def test_workers_that_cannot_start_are_an_error_of_all_jobs() -> None:
    with (
        closing(LocalExecutor(pretend, 1, prepare=fail_to_start)) as executor,
        pytest.raises(InputError, match=r"no run can be started.*code 1: OSError: no"),
    ):
        result_of(executor)


def test_closing_kills_workers_in_the_middle_of_a_job_and_leaves_no_file(tmp_path: Path) -> None:
    before = workers_of(os.getpid())
    with closing(LocalExecutor(pretend, 1)) as executor:
        submit(executor, "a", f"wait {tmp_path / 'never'}")
        assert executor.wait(0.1) == []
        (worker,) = set(workers_of(os.getpid())) - set(before)
        folder = executor._folder
        assert list(folder.iterdir())
    assert has_ended(worker)
    assert not folder.exists()


_PARENT = """
import sys, time
from tests.studies.small_runs import made_up_run, pretend
from pamt_lightning.studies.executor import LocalExecutor

if __name__ == "__main__":
    executor = LocalExecutor(pretend, 2)
    executor.submit("a", made_up_run("a").describe())
    while not executor.wait(0.1):
        pass
    executor.submit("b", made_up_run("b", "wait /never").describe())
    executor.submit("c", made_up_run("c", "wait /never").describe())
    print(executor._folder, flush=True)
    time.sleep(1000)
"""


def test_workers_end_with_their_parent_even_if_it_is_killed(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(_PARENT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "parent.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip())
        wait_until(lambda: len(workers_of(parent.pid)) == 2)
        workers = workers_of(parent.pid)
        parent.kill()
    for worker in workers:
        wait_until(lambda worker=worker: has_ended(worker))  # type: ignore[misc]
    wait_until(lambda: not folder.exists())
