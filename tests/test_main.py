import subprocess
import sys

import pytest

from pamt_lightning import __version__
from pamt_lightning.cli.main import COMMANDS, main
from pamt_lightning.errors import InputError


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ([], ["--help"], ["-h"]):
        assert main(argv) == 0
        shown = capsys.readouterr().out
        assert all(f"\n  {command}" in shown for command in COMMANDS)


def test_help_says_how_to_choose_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "--model GAT" in shown
    assert "pamt fit --model.help PAMT" in shown


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pamt {__version__}\n"


def test_a_mistyped_command_gets_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fitt"]) == 2
    assert "Did you mean `pamt fit`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        *(["--help"], ["--version"], ["datasets"], ["datasets", "--help"]),
        *(["methods"], ["methods", "gat"], ["methods", "--help"]),
    ],
)
def test_quick_answers_do_not_wait_for_torch(argv: list[str]) -> None:
    code = (
        "import sys; from pamt_lightning.cli.main import main\n"
        f"try: main({argv!r})\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'pytorch_lightning', 'numpy', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_wrong_input_is_one_line_and_code_2_but_a_crash_keeps_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(argv: list[str]) -> int:
        raise InputError("no such thing.")

    def crash(argv: list[str]) -> int:
        raise ValueError("a bug")

    monkeypatch.setattr("pamt_lightning.cli.datasets.run", wrong)
    assert main(["datasets"]) == 2
    assert capsys.readouterr().err == "pamt datasets: error: no such thing.\n"
    monkeypatch.setattr("pamt_lightning.cli.datasets.run", crash)
    with pytest.raises(ValueError, match="a bug"):
        main(["datasets"])
