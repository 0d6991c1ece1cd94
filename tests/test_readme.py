"""What README.md shows can be typed."""

import inspect
import re
import shlex
from pathlib import Path

import pytest

from pamt_lightning import PAMTModule
from pamt_lightning.cli.main import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands(start: str) -> list[str]:
    lines = [
        line.split("  #")[0].strip() for block in blocks("bash") for line in block.splitlines()
    ]
    return [line for line in lines if line.startswith(start)]


def test_the_two_commands_come_first_and_exist() -> None:
    assert [line.split("#")[0].strip() for line in blocks("bash")[0].splitlines()] == [
        "make run",
        "make test",
        ". .venv/bin/activate",
    ]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\nrun:" in makefile
    assert "\ntest:" in makefile
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", commands("pamt fit"))
def test_each_fit_command_is_understood(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    argv = [word for word in shlex.split(command)[1:] if word != "--print_config"]
    with pytest.raises(SystemExit) as stop:
        main([*argv, "--print_config"])
    assert stop.value.code in (0, None), capsys.readouterr().err


def test_no_placeholder_is_left() -> None:
    assert "@@" not in README


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    assert "max_epochs=2000" in code
    quick = code.replace("max_epochs=2000", "max_epochs=3, logger=False")
    scope: dict[str, object] = {}
    exec(compile(quick, "README.md", "exec"), scope)
    assert float(scope["trainer"].callback_metrics["test_acc"]) > 0  # type: ignore[attr-defined]


def test_every_option_that_is_named_exists(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    shown = capsys.readouterr().out
    for option in set(re.findall(r"--(?:data|stopping|trainer)\.\w+", README)):
        assert option in shown, option


def test_the_defaults_in_the_table_are_those_of_the_code() -> None:
    defaults = {k: p.default for k, p in inspect.signature(PAMTModule).parameters.items()}
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| `?([\w.]+)`? \|", README, re.MULTILINE)
    assert len(rows) >= 7
    for name, shown in rows:
        assert str(defaults[name]).lower() == shown, name
