"""The command, run in this process."""

from click.testing import CliRunner, Result

from extempo.cli.main import command


def assert_plain_and_narrow(text: str) -> None:
    assert ESCAPE not in text
    assert max(len(line) for line in text.splitlines()) <= 80


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(command, list(arguments), prog_name="extempo")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


ESCAPE = "\x1b"
