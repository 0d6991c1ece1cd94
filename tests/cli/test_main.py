"""The command `pamt`: dispatch, exit codes, and answers that do not wait for torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pamt_lightning import __version__
from pamt_lightning.cli.main import COMMANDS, main
from pamt_lightning.errors import InputError
from tests.small_run import failed, output_of


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command_and_how_to_choose_a_method(argv: list[str]) -> None:
    shown, _ = output_of(argv)
    assert all(f"\n  {command}" in shown for command in COMMANDS)
    assert "--model GAT" in shown
    assert "pamt fit --model.help PAMT" in shown


def test_the_version_is_printed_and_a_mistyped_command_gets_the_right_one() -> None:
    assert output_of(["--version"]) == output_of(["-V"]) == (f"pamt {__version__}\n", "")
    assert "Did you mean 'fit'?" in failed(["fitt"])
    assert "pamt --help" in failed(["xyz"])


@pytest.mark.parametrize(
    ("raised", "code", "printed"),
    [
        (InputError("no such thing."), 2, "pamt datasets: error: no such thing.\n"),
        (KeyboardInterrupt(), 130, "\npamt datasets: interrupted.\n"),
        (KeyboardInterrupt("Resume with: x"), 130, "\npamt datasets: Resume with: x\n"),
    ],
)
def test_wrong_input_and_interrupts_are_one_line(
    raised: BaseException, code: int, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(argv: list[str]) -> int:
        raise raised

    monkeypatch.setattr("pamt_lightning.cli.datasets.run", command)
    assert output_of(["datasets"], code) == ("", printed)


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(argv: list[str]) -> int:
        raise ValueError("a bug")

    monkeypatch.setattr("pamt_lightning.cli.datasets.run", command)
    with pytest.raises(ValueError, match="a bug"):
        main(["datasets"])


_QUICK: list[tuple[list[str], int]] = [
    *((["--help"], 0), (["--version"], 0), (["fitt"], 2)),
    *((["datasets"], 0), (["datasets", "--help"], 0)),
    *((["methods"], 0), (["methods", "gat"], 0), (["methods", "--help"], 0)),
    (["fit", "--config", "missing.yaml"], 2),
    (["fit", "--model", "GATT"], 2),
    (["fit", "--model.help", "GATT"], 2),
    (["fit", "--config", "configs/cora_ml.yaml", "--data.dataset", "coraml"], 2),
    (["fit", "--config", "unknown_method.yaml"], 2),
    (["fit", "--config", "unknown_section.yaml"], 2),
    *(([command], 2) for command in ("validate", "test", "predict")),
    # These load NumPy and pandas, which take less time than torch.
    *((["study"], 0), (["study", "--help"], 0), (["study", "nowhere.yaml"], 2)),
    *((["bench", "--jobs", "0"], 2), (["tune"], 2), (["speed", "--help"], 0)),
]
_DRIVER = """
import json, sys
from pamt_lightning.cli.main import main
for argv, code in json.loads(sys.argv[1]):
    try:
        found = main(argv)
    except SystemExit as stop:
        found = stop.code or 0
    assert found == code, (argv, found)
    heavy = {"torch", "pytorch_lightning", "lightning_fabric"}
    heavy |= {"numpy", "pandas"} if argv[0] not in ("study", "bench", "tune", "speed") else set()
    assert not heavy & set(sys.modules), (argv, heavy & set(sys.modules))
"""


def test_quick_answers_do_not_wait_for_torch(tmp_path: Path) -> None:
    (tmp_path / "unknown_method.yaml").write_text("model: GATT")
    (tmp_path / "unknown_section.yaml").write_text("modle: {}")
    command = [sys.executable, "-c", _DRIVER, json.dumps(_QUICK)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_ends_quietly() -> None:
    command = [sys.executable, "-m", "pamt_lightning.cli.main", "methods"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0
