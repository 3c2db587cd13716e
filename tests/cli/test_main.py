"""The command `extempo`: what it prints, in which width and colour, and how it ends."""

import importlib.metadata
import os
import signal
import subprocess
import sys

import pytest

import extempo as ex

from .commands import assert_plain_and_narrow, run

# The command as a whole


def test_version_is_the_one_of_the_package_and_of_its_metadata():
    assert run("--version").output == f"extempo, version {ex.__version__}\n"
    assert importlib.metadata.version("extempo") == ex.__version__


def test_no_arguments_print_the_help():
    result = run()
    assert result.exit_code == 0
    for name in ("info", "ops", "cache", "demo"):
        assert f"\n  {name} " in result.output


@pytest.mark.parametrize("arguments", [("--help",), ("info", "--help"), ("ops", "-h"), ("cache", "-h"), ("demo", "-h")])
def test_help_fits_a_terminal_of_80_columns(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert_plain_and_narrow(result.output)


@pytest.mark.parametrize("arguments", [(), ("cache",)])
def test_what_a_command_does_is_said_in_a_whole_sentence(arguments):
    assert "..." not in run(*arguments).output.partition("Commands:")[2]


def test_an_unknown_command_is_named_and_exits_with_2():
    result = run("fly")
    assert result.exit_code == 2
    assert "fly" in result.output


def test_a_misspelt_command_gets_the_nearest_suggested():
    assert "No such command 'dmeo'; did you mean 'demo'?" in run("dmeo").output
    assert "No such command 'claer'; did you mean 'clear'?" in run("cache", "claer").output


# extempo info


# extempo ops


# As a process


def start(*arguments: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True, **options)


# What takes longer to load than all of the help, which a newcomer asks for first.
LOADED_BY_COMMANDS = [
    *("rich", "llvmlite", "greenlet", "matplotlib", "pyarrow", "tensorboard", "torch"),
    *("asyncio", "concurrent", "email", "logging", "multiprocessing", "socket", "tempfile", "unittest"),
    *("extempo.cli.demo", "extempo.comparing", "extempo.data", "extempo.inspect", "extempo.nn", "extempo.train"),
]


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["--version"]], ids=" ".join)
def test_help_loads_only_what_it_needs(arguments):
    code = (
        f"import sys; from extempo.cli.main import command; command({arguments}, standalone_mode=False)\n"
        f"print([m for m in {LOADED_BY_COMMANDS} if m in sys.modules])"
    )
    process = start("-c", code, stdout=subprocess.PIPE)
    output, errors = process.communicate()
    assert errors == ""
    assert output.splitlines()[-1] == "[]"


def test_python_dash_m_runs_the_command():
    process = start("-m", "extempo", "--version", stdout=subprocess.PIPE)
    output, errors = process.communicate()
    assert (process.returncode, output, errors) == (0, f"extempo, version {ex.__version__}\n", "")


def test_importing_extempo_does_not_import_the_command_line():
    code = "import sys, extempo; print([m for m in sys.modules if m.split('.')[0] in ('click', 'rich')])"
    output, errors = start("-c", code, stdout=subprocess.PIPE).communicate()
    assert (output, errors) == ("[]\n", "")


@pytest.mark.alone
@pytest.mark.parametrize("arguments", [("ops",), ("ops", "--json"), ("info",), ("demo",), ("--help",)])
def test_a_closed_pipe_ends_the_command_without_a_word(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    process = start("-m", "extempo", *arguments, stdout=writer)
    os.close(writer)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (1, "")


@pytest.mark.alone
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process on Windows")
def test_an_interrupt_exits_with_130_and_no_traceback():
    # Making the data takes a minute here, so the signal always arrives in the middle of the command.
    code = """
import time
from extempo.cli import demo_task, main

def sequences(seed):
    print("ready", flush=True)
    time.sleep(60)

demo_task.sequences = sequences
main.main()
"""
    process = start("-c", code, "demo", stdout=subprocess.PIPE)
    while process.stdout.readline() != "ready\n":
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.strip() == ""
