from __future__ import annotations

import pytest

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.errors import InputError


@pytest.fixture
def parser() -> Parser:
    parser = Parser(prog="pamt x")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("name", nargs="?")
    return parser


@pytest.mark.parametrize(
    ("args", "facts"),
    [
        (["--job", "2"], ("--job", "Did you mean '--jobs'?")),  # no abbreviations
        (["--job=2"], ("--job", "Did you mean '--jobs'?")),
        (["--jobs", "many"], ("--jobs", "'many'")),
        (["--jobs"], ("--jobs", "expected one argument")),
        (["a", "b"], ("'b'",)),
        (["--hepl"], ("--hepl", "'--help'")),
    ],
)
def test_errors_are_one_line_and_name_the_option(
    parser: Parser, args: list[str], facts: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as error:
        parser.parse_args(args)
    message = str(error.value)
    assert all(fact in message for fact in facts), message
    assert message.endswith((".", "?"))
    assert "\n" not in message
