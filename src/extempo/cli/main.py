"""The command line: options in, one call of a sibling module, exit status out. What a command prints is made there.

All output goes through `click.echo`, which writes at once, so a reader that closes the pipe is noticed inside the
command, where click ends it without a message and with exit status 1.
"""

import io
import sys
from pathlib import Path

import click

from extempo._version import __version__
from extempo.cli.compare_command import compare
from extempo.cli.showing import json_option, show, show_as

INTERRUPTED = 130  # what shells report for a command ended by SIGINT


def _seed(context: click.Context, option: click.Parameter, text: str) -> int:
    """The number that random streams start from."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise click.BadParameter(f"{text!r} is not a whole number of at most 18 digits, such as 7.")
    return int(text)


class Commands(click.Group):
    """Commands by name; one that is misspelt gets the nearest suggested."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            from extempo.core.absent_names import did_you_mean

            ctx.fail(f"No such command {name!r}{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="extempo")
@click.pass_context
def command(context: click.Context) -> None:
    """Define-by-run deep learning with PyTorch's names, on a plain CPU."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


command.add_command(compare)


@command.command(short_help="Print what goes into a bug report: versions, CPU, threads.")
@click.option("--all", "everything", is_flag=True, help="Also the CPU's features, all packages and caches.")
@json_option("Print one JSON object, with everything.")
def info(everything: bool, as_json: bool) -> None:
    """Print versions, CPU, backend and threads: what goes into a bug report."""
    from extempo.cli import environment

    facts = environment.collect()
    show_as(as_json, facts, environment.as_json, environment.as_table if everything else environment.as_short_table)


@command.command()
@click.argument("name", required=False)
@click.option("--missing", is_flag=True, help='Only the aspects that are "not yet" there, grouped.')
@json_option("Print JSON.")
def ops(name: str | None, missing: bool, as_json: bool) -> None:
    """List the registered operations, or all that is known of NAME."""
    from extempo.cli import op_table

    try:
        rows = op_table.describe(name)
    except KeyError as error:
        raise click.UsageError(str(error.args[0])) from None
    if missing:
        show_as(as_json, op_table.find_gaps(rows), op_table.gaps_as_json, op_table.gaps_as_text)
    elif name is None:
        show_as(as_json, rows, op_table.as_json, op_table.as_table)
    else:
        show_as(as_json, rows[0], op_table.as_json, op_table.as_page)


@command.group(cls=Commands, invoke_without_command=True)
@click.pass_context
def cache(context: click.Context) -> None:
    """Look at the compiled kernels kept on disk, or remove them."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cache.command("info", short_help="Print where kernels are kept, and how many.")
@json_option()
def cache_info(as_json: bool) -> None:
    """Print where kernels are kept, how many, and how often one was found."""
    from extempo.cli import kernel_cache

    show_as(as_json, kernel_cache.collect(), kernel_cache.as_json, kernel_cache.as_table)


@cache.command("clear")
@json_option()
def cache_clear(as_json: bool) -> None:
    """Remove every kernel kept on disk.

    The exit status is 1 if some could not be removed.
    """
    from extempo.cli import kernel_cache

    removal = kernel_cache.clear()
    show_as(as_json, removal, kernel_cache.as_json, kernel_cache.removal_as_text)
    if removal.failed:
        raise click.exceptions.Exit(1)


@command.command(short_help="Run a recorded iteration again and compare every value.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--stop", metavar="NODE", help="Stop in pdb after this node, such as %7, with its inputs and results.")
@json_option("Print one JSON object.")
def replay(file: Path, stop: str | None, as_json: bool) -> None:
    """Run what ex.record wrote to FILE again, list its nodes with values, and say which op differs first.

    The exit status is 1 if one does.
    """
    from extempo.cli import replaying

    found = replaying.replayed(file, stop)
    click.echo(found.to_json() if as_json else str(found))
    if found.first_difference is not None:
        raise click.exceptions.Exit(1)


@command.command(short_help="Train on sequences of any length and show every stage.")
@click.option(
    "--seed",
    metavar="INTEGER",
    default="0",
    show_default=True,
    callback=_seed,
    help="Another one gives other data and weights.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write a web page with plots there, too.")
@json_option()
def demo(seed: int, out: Path | None, as_json: bool) -> None:
    """Show the way from data to prediction: sequences of any length, trained on in seconds."""
    from extempo.cli import demo as tour

    if as_json:
        click.echo(tour.to_json(tour.run(lambda renderable: None, seed, out), seed))
    else:
        tour.run(show, seed, out)


@command.command(short_help="Take the course on dynamic graphs: answer, run, see.")
@click.argument("numbers", metavar="[NUMBER]...", nargs=-1, type=click.IntRange(1))
@click.option("--all", "everything", is_flag=True, help="Every lesson, one after the other.")
@click.option(
    "--answers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Without a person: a file with lines such as `3: b a`, lesson and answers.",
)
@click.option("--reset", is_flag=True, help="Forget what was done.")
@json_option("Print the lessons, with all their steps, as JSON.")
def learn(numbers: tuple[int, ...], everything: bool, answers: Path | None, reset: bool, as_json: bool) -> None:
    """List the lessons, or take those of these NUMBERs.

    Each question wants an answer first; then its code runs, here and now, and the run decides. Progress is kept in the
    user's state directory, or in EXTEMPO_STATE_DIR.
    """
    from extempo.cli import learn_command
    from extempo.learn import lesson, lessons

    chosen = [one.number for one in lessons()] if everything else list(numbers)
    try:
        for number in chosen:
            lesson(number)
    except IndexError as error:
        raise click.UsageError(str(error)) from None
    if reset:
        learn_command.reset()
    if answers is not None and not chosen:
        raise click.UsageError("--answers needs lessons: their numbers, or --all")
    if answers is not None:
        raise click.exceptions.Exit(learn_command.take_alone(chosen, answers))
    if chosen:
        raise click.exceptions.Exit(learn_command.take(chosen))
    if not reset:
        learn_command.show_list(as_json)


@command.command("show", short_help="Print a program that program.save wrote.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--draw", metavar="FILE.svg", help="Draw it there instead: .html, .svg, .png, .dot, .mmd, .txt.")
@json_option("Print inputs, outputs, sizes and weights as one JSON object.")
def show_program(file: str, draw: str | None, as_json: bool) -> None:
    """Print the program in FILE: its inputs, weights, ops and outputs."""
    from extempo.cli import programs
    from extempo.errors import ExtempoError

    try:
        if draw is not None:
            click.echo(programs.drawn(file, draw))
        else:
            click.echo(programs.described(file) if as_json else programs.shown(file))
    except (ExtempoError, ValueError) as error:
        raise click.ClickException(str(error)) from None


@command.command(short_help="Run a program that program.save wrote on arrays in files.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--input", "inputs", metavar="NAME=FILE.npy", multiple=True, help="An array of numpy.save; for each input."
)
@click.option("--output", "outputs", metavar="[NAME=]FILE.npy", multiple=True, help="Write a result there.")
def predict(file: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Run the program in FILE, and print the results that go to no file."""
    from extempo.cli import programs
    from extempo.errors import ExtempoError

    try:
        for name, value in programs.predict(file, inputs, outputs):
            click.echo(f"{name} = {value}")
    except (ExtempoError, programs.Mistake) as error:
        raise click.ClickException(str(error)) from None


@command.command(short_help="Make the file of a program smaller, and report the change.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("out", type=click.Path(dir_okay=False))
@click.option("--kind", type=click.Choice(["int8", "float16"]), default="int8", show_default=True, help="Of weights.")
@click.option("--dynamic", is_flag=True, help="Round what linear layers get, too.")
@click.option(
    "--input", "inputs", metavar="NAME=FILE.npy", multiple=True, help="An array to compare on; drawn if none is given."
)
def quantize(file: str, out: str, kind: str, dynamic: bool, inputs: tuple[str, ...]) -> None:
    """Round the weights of the program in FILE, write it to OUT, and report size, time and accuracy."""
    from extempo.cli import programs
    from extempo.errors import ExtempoError

    try:
        click.echo(str(programs.quantize(file, out, kind, dynamic, inputs)))
    except (ExtempoError, programs.Mistake) as error:
        raise click.ClickException(str(error)) from None


@command.command(short_help="Serve programs that program.save wrote, by HTTP.")
@click.argument("models", metavar="[NAME[:VERSION]=]FILE...", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; by default this machine alone.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free.")
@click.option("--max-batch", type=int, default=64, show_default=True, help="Samples that run together, at most.")
@click.option("--max-wait", default="2ms", show_default=True, help="How long the first of a batch waits for others.")
@click.option("--max-queue", type=int, default=1024, show_default=True, help="Samples that wait; then 429.")
@click.option("--max-body", default="16MiB", show_default=True, help="The largest body; then 413.")
@click.option("--max-requests", type=int, default=512, show_default=True, help="Requests at a time; then 503.")
@click.option("--timeout", default="30s", show_default=True, help="From a request to its answer; then 504.")
@click.option("--body-timeout", default="10s", show_default=True, help="For headers, and for the body; then 408.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the token that requests must bring. The variable EXTEMPO_TOKEN does the same.",
)
def serve(models: tuple[str, ...], host: str, port: int, token_file: Path | None, **limits: str | int) -> None:
    """Serve the programs in files. Requests of different length run as one batch, without padding."""
    from extempo.cli import serving
    from extempo.errors import ExtempoError

    try:
        serving.run(models, host, port, token_file, limits)
    except ExtempoError as error:
        raise click.ClickException(str(error)) from None


@command.command(
    short_help="Run a PyTorch program as it is, without PyTorch.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--report", is_flag=True, help="List at the end which names of PyTorch were missing, with their lines.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(report: bool, script: str, args: tuple[str, ...]) -> None:
    """Run a PyTorch program as it is: in SCRIPT, `import torch` means Extempo.

    PyTorch need not be installed. Libraries that import it run, too.
    """
    from extempo.compat.torch_namespace.running import run_script

    sys.exit(run_script(script, args, report))


@command.command(
    short_help="Run a program as several processes that train together.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-n", "--ranks", type=click.IntRange(1), default=1, show_default=True, help="How many processes.")
@click.option("--hosts", metavar="A:4,B:4", help="Machines with their numbers of processes; by default this one.")
@click.option("--threads", type=click.IntRange(1), help="Of each process; by default the cores divided among them.")
@click.option("--survive", is_flag=True, help="When a process is lost the others go on (Open MPI's ULFM).")
@click.option("--torch", is_flag=True, help="In SCRIPT, `import torch` means Extempo, as `extempo run` does.")
@click.option("--no-prefix", is_flag=True, help="Print lines without the number of their process.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def launch(
    ranks: int,
    hosts: str | None,
    threads: int | None,
    survive: bool,
    torch: bool,
    no_prefix: bool,
    script: str,
    args: tuple[str, ...],
) -> None:
    """Run SCRIPT as several processes that `extempo.distributed` makes one group of, by MPI.

    Needs the extra `mpi`. The exit status is that of the first process that failed; the last line names a lost one.
    """
    from extempo.distributed import launcher
    from extempo.errors import ExtempoError

    try:
        status = launcher.launch(
            script, args, ranks, hosts=hosts, threads=threads, survive=survive, torch=torch, prefix=not no_prefix
        )
    except ExtempoError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(status)


@command.command(
    short_help="Run a program and print where its time goes.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--mode", type=click.Choice(["trace", "sample"]), default="trace", help="Every op, or looks at a clock.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="A folder for flame graph, trace, page.")
@click.option("--rows", type=click.IntRange(1), default=12, show_default=True, help="Lines to print.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def profile(mode: str, out: Path | None, rows: int, script: str, args: tuple[str, ...]) -> None:
    """Run SCRIPT as Python does and print where its time went: by line, with phases and advice.

    `--out DIR` also writes flame.svg, trace.json (for ui.perfetto.dev) and profile.html. The report goes to standard
    error, so that what the program prints stays as it is.
    """
    from extempo.cli.profile_command import profile_script

    sys.exit(profile_script(script, args, mode, out, rows))


@command.command(
    "studio",
    short_help="Watch a training program in the browser, and change it while it runs.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to listen, on this machine; 0: any.")
@click.option("--every", type=click.IntRange(1), help="Capture one iteration in so many, at any price.")
@click.option("--browser/--no-browser", default=True, help="Open the page, or only print its address.")
@click.option("--wait", type=click.FloatRange(0, 3600), default=30.0, help="Seconds to wait for the first page.")
@click.option("--stay/--no-stay", default=True, help="Keep the page when the program has ended.")
@click.argument("script", metavar="[SCRIPT[:FUNCTION]]", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def studio(
    port: int, every: int | None, browser: bool, wait: float, stay: bool, script: str | None, args: tuple[str, ...]
) -> None:
    """Run SCRIPT, or FUNCTION of it, and show it at work in the browser.

    Without a script, the model of `extempo demo` is trained. The page shows the graph as it forms, the data on its way,
    curves and metrics; there the program can be paused and its layers changed. It stays until Ctrl-C.
    """
    from extempo.cli import studio_command
    from extempo.errors import ExtempoError

    try:
        sys.exit(studio_command.run(script, args, port, every, browser, wait, stay))
    except ExtempoError as error:
        raise click.ClickException(str(error)) from None


def main() -> None:
    """Run the command line and leave with its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal or pipe that cannot show a character of a doc line gets a question mark for it.
        sys.stdout.reconfigure(errors="replace")
    try:
        status = command(prog_name="extempo", standalone_mode=False)
    except click.exceptions.Abort:
        # click has already ended the line that ^C stands on.
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    sys.exit(status)
