"""The runner with an executor that computes in this process."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies import runner as runner_module
from pamt_lightning.studies.executor import Finished, Payload
from pamt_lightning.studies.results import Results
from pamt_lightning.studies.runner import Runner, check_jobs, progress_bar, sigterm_interrupts
from tests.studies.small_runs import FakeExecutor, is_claimed, made_up_run

Events = list[Callable[[], None]]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path)


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def runner(results: Results, executor: FakeExecutor) -> Runner:
    return Runner(results, executor, quiet=True)


@pytest.fixture
def other(tmp_path: Path) -> Results:
    """The results as another command sees them."""
    return Results(tmp_path)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Events:
    """What happens, one after the other, whenever the runner waits for another command."""
    events: Events = []
    monkeypatch.setattr("pamt_lightning.studies.runner.time.sleep", lambda _: events.pop(0)())
    return events


def ids_in(results: Results) -> list[str]:
    """Ids in the order of the file."""
    lines = results.path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["id"] for line in lines]


def finish(results: Results, **row: object) -> None:
    """What another command does with the run "a"."""
    results.add({"id": "a", **row})
    results.release("a")


def test_each_run_is_computed_once(
    runner: Runner, executor: FakeExecutor, results: Results
) -> None:
    assert runner.run([made_up_run(name) for name in "abac"]) == {}
    assert runner.run([made_up_run(name) for name in "abcd"]) == {}
    assert executor.submitted == ids_in(results) == ["a", "b", "c", "d"]
    row, run = results.rows()["a"], made_up_run("a").describe()
    assert {name: row[name] for name in run} == run
    assert row["metrics"]["test_acc"] == 0.5


def test_as_many_runs_are_submitted_and_claimed_as_there_are_slots(results: Results) -> None:
    executor = FakeExecutor(slots=3)
    seen = []

    def look(payload: object) -> dict[str, object]:
        seen.append([is_claimed(results, name) for name in "abcd"])
        return {"metrics": {}}

    executor.work = look
    assert Runner(results, executor, quiet=True).run([made_up_run(n) for n in "abcd"]) == {}
    assert seen[:2] == [[True, True, True, False], [False, True, True, True]]
    assert not any(is_claimed(results, name) for name in "abcd")


def test_a_failed_run_leaves_its_reason_and_is_repeated_only_if_asked_for(
    runner: Runner, results: Results
) -> None:
    runs = [made_up_run("a", "refuse"), made_up_run("b", "break"), made_up_run("c")]
    failed = {"a": "`alpha` is wrong.", "b": "KeyError: 'a bug'"}
    assert runner.run(runs) == failed
    rows = results.rows()
    assert rows["a"]["error"] == failed["a"]
    assert not {"metrics", "traceback"} & set(rows["a"])
    assert "a bug" in rows["b"]["traceback"]
    runs = [made_up_run(name) for name in "abc"]
    assert runner.run(runs) == failed
    assert runner.run(runs, retry=True) == {}
    assert ids_in(results) == ["a", "b", "c", "a", "b"]
    assert "error" not in results.rows()["a"]


def test_a_run_that_is_stopped_is_repeated_once_and_leaves_no_row(results: Results) -> None:
    class Stopped(FakeExecutor):
        def wait(self, timeout: float) -> list[Finished]:
            (finished,) = super().wait(timeout)
            if finished.job_id == "a" or self.submitted == ["a", "a", "b"]:
                return [finished._replace(answer={"error": "stopped"}, stopped=True)]
            return [finished]

    executor = Stopped()
    runs = [made_up_run(name) for name in "abc"]
    assert Runner(results, executor, quiet=True).run(runs) == {"a": "stopped"}
    assert executor.submitted == ["a", "a", "b", "b", "c"]
    assert ids_in(results) == ["b", "c"]


def test_results_of_changed_data_are_not_recorded(runner: Runner, results: Results) -> None:
    runs = [made_up_run("a"), made_up_run("b", "outdated"), made_up_run("c")]
    with pytest.raises(InputError, match="the data changed: start it again"):
        runner.run(runs)
    assert ids_in(results) == ["a"]
    assert not is_claimed(results, "b")


def test_an_interruption_gives_all_claims_back(results: Results) -> None:
    class Interrupted(FakeExecutor):
        def wait(self, timeout: float) -> list[Finished]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Runner(results, Interrupted(slots=2), quiet=True).run([made_up_run(n) for n in "ab"])
    assert not any(is_claimed(results, name) for name in "ab")


# Another command on the same folder --------------------------------------------------------------


def test_a_run_of_another_command_is_waited_for_and_not_repeated(
    runner: Runner, results: Results, other: Results, meanwhile: Events
) -> None:
    assert other.claim("a")
    meanwhile += [
        lambda: None,  # it takes its time
        lambda: finish(other, metrics={}),
    ]
    assert runner.run([made_up_run("a", "break"), made_up_run("b")]) == {}
    assert ids_in(results) == ["b", "a"]
    assert meanwhile == []


@pytest.mark.parametrize("retry", [False, True])
def test_a_run_that_another_command_gives_up_is_taken_over(
    retry: bool, runner: Runner, results: Results, other: Results, meanwhile: Events
) -> None:
    if retry:
        results.add({"id": "a", "error": "it diverged."})
    assert other.claim("a", retry=retry)
    meanwhile.append(lambda: other.release("a"))
    assert runner.run([made_up_run("a"), made_up_run("b")], retry=retry) == {}
    assert ids_in(results)[-2:] == ["b", "a"]


@pytest.mark.parametrize("again", [{"error": "it diverged again."}, {"metrics": {}}])
def test_what_another_command_made_of_a_repeated_run_counts(
    again: dict[str, str], runner: Runner, results: Results, other: Results, meanwhile: Events
) -> None:
    results.add({"id": "a", "error": "it diverged."})
    assert other.claim("a", retry=True)
    meanwhile.append(lambda: finish(other, **again))
    failed = runner.run([made_up_run("a")], retry=True)
    assert failed == ({"a": again["error"]} if "error" in again else {})
    assert len(ids_in(results)) == 2


def test_a_run_that_another_command_failed_just_now_is_not_repeated(
    results: Results, meanwhile: Events
) -> None:
    class AfterTheOther(FakeExecutor):
        def submit(self, job_id: str, payload: Payload) -> None:
            if job_id == "b":  # our look at the rows was before that
                results.add({"id": "a", "error": "it diverged."})
            super().submit(job_id, payload)

    meanwhile.append(lambda: None)
    executor = AfterTheOther()
    failed = Runner(results, executor, quiet=True).run([made_up_run("b"), made_up_run("a")])
    assert failed == {"a": "it diverged."}
    assert executor.submitted == ["b"]


# Progress ----------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_is_a_line_a_minute_and_one_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    with progress_bar(1200, 1195) as bar:
        monkeypatch.setattr(bar, "_time", lambda: now[0])
        bar.start_t = bar.last_print_t = now[0]
        for seconds in (30, 30, 1, 59, 0):
            now[0] += seconds
            bar.update()
    assert capsys.readouterr().err.splitlines() == [
        "runs: 1195 of 1200, left ?",
        "runs: 1197 of 1200, left 01:30",  # 30 s for each of three
        "runs: 1199 of 1200, left 00:30",
        "runs: 1200 of 1200, left 00:00",
    ]


def test_failed_runs_are_counted_and_nothing_is_printed_if_quiet_or_all_are_done(
    results: Results, executor: FakeExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    last = "runs: 2 of 2, left 00:00, 1 failed"
    for names, quiet, expected in (("ab", False, last), ("ab", False, ""), ("abc", True, "")):
        runs = [made_up_run(name, "refuse" if name == "a" else "") for name in names]
        Runner(results, executor, quiet).run(runs)
        assert capsys.readouterr().err.strip().rpartition("\n")[2] == expected


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar(4, 1) as bar:
        bar.update(2)
        bar.refresh()
    assert all(fact in terminal.getvalue() for fact in ("75%", "3/4", "left 00:00"))


# Cores and signals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "threads", "expected"),
    [
        *((None, 1, 4), (None, 3, 1), (4, 1, 4), (2, 2, 2)),
        *((5, 1, "`jobs` .* \\[1, 4\\] .* got 5"), (0, 1, "`jobs` .* got 0")),
        *((3, 2, "`jobs` .* \\[1, 2\\] .* got 3"), (1, 5, "`threads` .* \\[1, 4\\] .* got 5")),
    ],
)
def test_there_are_as_many_processes_as_fit_and_never_more(
    jobs: int | None, threads: int, expected: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "num_cores", lambda: 4)
    if isinstance(expected, int):
        assert check_jobs(jobs, threads) == expected
    else:
        with pytest.raises(InputError, match=expected):
            check_jobs(jobs, threads)


def test_sigterm_interrupts_unless_something_else_handles_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with sigterm_interrupts():
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
