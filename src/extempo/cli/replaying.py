"""`extempo replay`: a recorded iteration again; with a node to stop at, in pdb there."""

from bdb import BdbQuit
from pathlib import Path
from pdb import Pdb
from typing import Any

import click

from extempo.errors import ExtempoError
from extempo.inspect import Replay, ReplayedNode, replay


def replayed(file: Path, stop: str | None) -> Replay:
    """What the replay found; what is wrong with the file or the node is an error of the command."""
    try:
        return replay(str(file), stop, _stopped)
    except ExtempoError as error:
        raise click.ClickException(str(error)) from None


def _stopped(node: ReplayedNode, inputs: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    click.echo(f"{node.name} {node.op} {node.phase} ({node.module or 'no module'}, {node.line}): {node.value}")
    click.echo("node, inputs and results are here; c goes on to the list of nodes")
    debugger = Pdb(nosigint=True)
    try:
        _wait(debugger, node, inputs, results)
    except BdbQuit:
        click.echo("")


def _wait(debugger: Pdb, node: ReplayedNode, inputs: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    debugger.set_trace()
