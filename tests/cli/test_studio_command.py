"""`extempo studio`: runs a script as Python does, tells the page how it ended, and keeps it until Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import click
import pytest

from extempo.cli.studio_command import split

from ..studio_server.helpers import DEADLINE, FakePage

pytest.importorskip("uvicorn", reason="the studio needs uvicorn")
pytest.importorskip("websockets", reason="the studio needs websockets")

SCRIPT = """
import sys
import extempo as ex
from extempo import nn

model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
optimizer = ex.optim.SGD(model.parameters(), lr=0.1)


def train(n=5):
    for _ in range(int(n)):
        model(ex.ones(4, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    train()
    print("argv", sys.argv[1:])
    {end}
"""


class Command:
    """The command in a process of its own."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "extempo", "studio", "--no-browser", "--wait", "60", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = re.search(r"http://\S+", self.process.stderr.readline())[0]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()

    def interrupted(self):
        """(exit status, what it printed, what it said) after Ctrl-C"""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out, err


@pytest.fixture
def script(tmp_path):
    def write(end="pass"):
        path = tmp_path / "train.py"
        path.write_text(SCRIPT.replace("{end}", end))
        return path

    return write


@pytest.mark.slow
def test_a_script_runs_as_main_and_its_page_outlives_it(script):
    with Command(script(), "--epochs", "3") as command:
        with FakePage(command.address) as page:
            ended = page.until("program", lambda m: m["status"] == "ended")
            assert (ended["name"], ended["exit"]) == ("train.py", 0)
        with FakePage(command.address) as later:  # the page can be loaded again
            hello = later.receive()
            assert hello["program"]["status"] == "ended"
            assert hello["runs"][0]["n_steps"] == 5
            later.send(type="lr", id="c", lr=0.1)
            assert "any more" in later.until("answer")["error"]
        status, out, err = command.interrupted()
    assert status in (0, 130)
    assert "argv ['--epochs', '3']" in out
    assert "exit status 0" in err


@pytest.mark.slow
def test_an_error_is_shown_in_the_page_with_its_graph_and_in_the_terminal_as_the_line_of_the_script(script):
    with Command(script("model(ex.ones(4, 7))")) as command:
        with FakePage(command.address) as page:
            error = page.until("error")
            assert "ShapeError" in error["message"]
            assert any(e.get("k") == "error" for e in error["capture"]["graph"]["elements"])
        with FakePage(command.address) as later:
            program = later.receive()["program"]
            assert (program["status"], program["exit"]) == ("failed", 1)
        _, _, err = command.interrupted()
    assert "train.py" in err
    assert "studio_command.py" not in err


@pytest.mark.slow
def test_an_exit_status_is_told(script):
    with Command(script("sys.exit(7)")) as command, FakePage(command.address) as page:
        assert page.until("program", lambda m: m["status"] == "ended")["exit"] == 7


@pytest.mark.slow
def test_a_function_of_a_script_is_run_with_its_arguments(script):
    with Command(f"{script()}:train", "3") as command, FakePage(command.address) as page:
        assert page.until("program", lambda m: m["status"] == "ended")["exit"] == 0
        page.send(type="history", id="h", run=1)
        page.until("history")


@pytest.mark.slow
def test_a_program_that_is_killed_takes_its_page_along(script):
    from websockets.exceptions import ConnectionClosed

    with Command(script("train(10**9)")) as command, FakePage(command.address) as page:
        page.until("capture")
        command.process.kill()
        with pytest.raises(ConnectionClosed):
            page.until("program", lambda m: m["status"] == "gone")


@pytest.mark.slow
def test_the_demo_trains_until_it_is_interrupted():
    with Command() as command:
        with FakePage(command.address) as page:
            capture = page.until("capture")
            assert capture["calls"]["shown"] == 2
            page.send(type="predict", id="p", sequence="3 1 4")
            assert page.until("prediction")["ok"]
        status, _, _ = command.interrupted()
    assert status == 130


@pytest.mark.parametrize("target", ["nowhere.py", "nowhere.py:train", ":train"])
def test_a_script_that_is_not_there_is_named(target):
    with pytest.raises(click.UsageError, match="there is no file"):
        split(target)
