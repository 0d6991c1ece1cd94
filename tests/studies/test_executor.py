"""The local executor with real processes that only pretend to train."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies.executor import Finished, Job, LocalExecutor, perform
from tests.studies.small_runs import (
    PATIENCE,
    fail_to_start,
    has_ended,
    made_up_run,
    pretend,
    wait_until,
    workers_of,
)


def job(name: str, what: str = "") -> Job:
    return Job(name, made_up_run(name, what).describe())


def next_finished(executor: LocalExecutor, count: int = 1) -> list[Finished]:
    """The next jobs that finish."""
    found: list[Finished] = []
    end = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < end, "waited in vain"
        found += executor.wait(0.5)
    return found


def process_of(finished: Finished) -> int:
    return int(finished.answer["metrics"]["process"])


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """One executor for all tests that leave it as it was: two processes at most."""
    with closing(LocalExecutor(pretend, 2, threads=3)) as found:
        yield found


def test_jobs_are_computed_by_one_process_one_after_the_other(executor: LocalExecutor) -> None:
    answers = []
    for name in "ab":
        executor.submit(job(name))
        answers += next_finished(executor)
    assert [answer.job_id for answer in answers] == ["a", "b"]
    assert process_of(answers[0]) == process_of(answers[1]) != os.getpid()
    assert answers[0].answer["environment"]["threads"] == "3"
    assert os.environ.get("OMP_NUM_THREADS") != "3"


def test_jobs_are_spread_over_processes_and_workers_print_nothing(
    executor: LocalExecutor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    executor.submit(job("a", f"wait {tmp_path / 'sign'}"))
    executor.submit(job("b", "print hello"))
    (second,) = next_finished(executor)  # one process alone would never come to it
    assert second.job_id == "b"
    assert executor.wait(0.05) == []
    (tmp_path / "sign").touch()
    (first,) = next_finished(executor)
    assert process_of(first) != process_of(second)
    assert capfd.readouterr() == ("", "")


def test_an_error_is_an_answer_and_the_process_stays(executor: LocalExecutor) -> None:
    executor.submit(job("a", "refuse"))
    (refused,) = next_finished(executor)
    executor.submit(job("b", "break"))
    (broken,) = next_finished(executor)
    assert refused.answer == {"error": "`alpha` is wrong."}
    assert broken.answer["error"] == "KeyError: 'a bug'"
    assert "small_runs.py" in broken.answer["traceback"]
    assert not refused.stopped


def test_a_dead_worker_fails_its_own_job_only(executor: LocalExecutor, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    executor.submit(job("other", f"wait {sign}"))
    ended = []
    for name, what in (
        *(("a", "die"), ("b", "print hm"), ("c", "exit"), ("d", "exit free(): invalid pointer")),
        ("e", ""),
    ):
        executor.submit(job(name, what))
        ended += next_finished(executor)
    sign.touch()
    (other,) = next_finished(executor)
    assert other.answer["metrics"]["test_acc"] == ended[4].answer["metrics"]["test_acc"] == 0.5
    errors: dict[str, Any] = {each.job_id: each.answer.get("error") for each in ended}
    assert "signal 9" in errors["a"]
    assert "memory" in errors["a"]
    assert errors["c"] == "its process ended with code 3."  # not with the words of an earlier job
    assert errors["d"] == "its process ended with code 3: free(): invalid pointer"
    assert errors["b"] is errors["e"] is None


@pytest.mark.parametrize("what", ["terminate", "interrupt"])
def test_a_job_whose_worker_is_stopped_from_outside_has_not_failed(
    what: str, executor: LocalExecutor
) -> None:
    executor.submit(job("a", what))
    (stopped,) = next_finished(executor)
    assert stopped.stopped
    assert stopped.job_id == "a"


def test_a_worker_that_dies_while_it_is_idle_costs_nothing(executor: LocalExecutor) -> None:
    executor.submit(job("a"))
    process = process_of(next_finished(executor)[0])
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: has_ended(process))
    executor.submit(job("b"))
    (found,) = next_finished(executor)
    assert found.answer["metrics"]["test_acc"] == 0.5


def test_workers_that_cannot_start_are_an_error_of_all_jobs() -> None:
    with closing(LocalExecutor(pretend, 1, prepare=fail_to_start)) as executor:
        executor.submit(job("a"))
        with pytest.raises(InputError, match=r"no run can be started.*code 1: OSError: no"):
            next_finished(executor)


def test_closing_kills_workers_in_the_middle_of_a_job_and_leaves_no_file(tmp_path: Path) -> None:
    before = workers_of(os.getpid())
    with closing(LocalExecutor(pretend, 1)) as executor:
        executor.submit(job("a", f"wait {tmp_path / 'never'}"))
        assert executor.wait(0.1) == []
        (worker,) = set(workers_of(os.getpid())) - set(before)
        folder = Path(executor._folder)
        assert list(folder.iterdir())
    assert has_ended(worker)
    assert not folder.exists()


_PARENT = """
import sys, time
from tests.studies.small_runs import made_up_run, pretend
from pamt_lightning.studies.executor import Job, LocalExecutor

if __name__ == "__main__":
    executor = LocalExecutor(pretend, 2)
    executor.submit(Job("a", made_up_run("a").describe()))
    while not executor.wait(0.1):
        pass
    executor.submit(Job("b", made_up_run("b", "wait /never").describe()))
    executor.submit(Job("c", made_up_run("c", "wait /never").describe()))
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


def test_perform_leaves_signals_to_its_caller() -> None:
    def stop(_: Any) -> dict[str, Any]:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        perform(stop, {})
