"""For each exception a few lines that raise it, and those lines as they work; docs/errors.md shows both.

`train.py` stands for the reader's file: messages name it, with the line.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import tempfile
import textwrap
import warnings
from typing import NamedTuple


class Mistake(NamedTuple):
    """A program that raises the error, and what to write in its place."""

    wrong: str
    right: str


def _mistake(setup: str, wrong: str, right: str) -> Mistake:
    """Programs that share their first lines."""
    setup = textwrap.dedent(setup).strip("\n")
    opening = setup + "\n" if "import extempo as ex" in setup else f"import extempo as ex\n\n{setup}\n"
    programs = (opening + textwrap.dedent(last).strip("\n") + "\n" for last in (wrong, right))
    defined = r"\n+((?:@.*\n)*(?:def|class) )"  # with two blank lines before it, as ruff has it
    return Mistake(*(re.sub(defined, r"\n\n\n\1", program) for program in programs))


MISTAKES = {
    "ExtempoError": _mistake(
        "x = ex.ones(2, 3)",
        "x.reshape(4, 2)",
        """
        try:
            x.reshape(4, 2)
        except ex.errors.ExtempoError as error:
            print("caught:", type(error).__name__)
        """,
    ),
    "ShapeError": _mistake("x, w = ex.ones(2, 3), ex.ones(4, 3)", "x @ w", "x @ w.T"),
    "DtypeError": _mistake(
        "table = ex.nn.Embedding(10, 4)", "table(ex.tensor([1.0, 2.0]))", "table(ex.tensor([1.0, 2.0]).long())"
    ),
    "ArgumentError": _mistake(
        "model = ex.nn.Linear(2, 1)",
        "ex.optim.SGD(model.parameters(), lr=-0.1)",
        "ex.optim.SGD(model.parameters(), lr=0.1)",
    ),
    "IndexRangeError": _mistake("x = ex.ones(2, 3)", "x.sum(dim=2)", "x.sum(dim=-1)"),
    "UnsupportedError": _mistake("x = ex.ones(3)", 'x.to("cuda")', 'x.to("cuda" if ex.cuda.is_available() else "cpu")'),
    "NumericalError": _mistake("x = ex.ones(2, 2)", "ex.linalg.inv(x)", "ex.linalg.pinv(x)"),
    "DistributedError": _mistake(
        "dist, x = ex.distributed, ex.ones(2)",
        "dist.all_reduce(x)",
        """
        dist.init_process_group()
        dist.all_reduce(x)
        dist.destroy_process_group()
        """,
    ),
    "RankLostError": _mistake(
        """
        lost = ex.errors.RankLostError("all_gather: rank 1 is lost", (1,))  # as if it had died meanwhile
        """,
        "raise lost",
        """
        try:
            raise lost
        except ex.errors.RankLostError as error:
            print("going on without rank", *error.ranks)
        """,
    ),
    "DiskFullError": _mistake(
        """
        import resource

        import extempo as ex

        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, -1))  # as if there were no more room
        """,
        'ex.save({"weights": ex.zeros(100_000)}, "weights.ex")',
        """
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
        ex.save({"weights": ex.zeros(100_000)}, "weights.ex")
        """,
    ),
    "GraphError": _mistake(
        "",
        """
        @ex.compile(static=True)
        def absolute(x):
            return x if x.sum() > 0 else -x


        absolute(ex.ones(3))
        """,
        """
        @ex.compile  # the Python runs at every call, and may look at values
        def absolute(x):
            return x if x.sum() > 0 else -x


        absolute(ex.ones(3))
        """,
    ),
    "ExportError": _mistake(
        "",
        """
        def mean(rows):
            return sum(rows.tolist()) / len(rows)


        ex.program(mean, ex.ones(4), dynamic={"rows": {0: "n"}})
        """,
        """
        def mean(rows):
            return rows.mean()


        ex.program(mean, ex.ones(4), dynamic={"rows": {0: "n"}})
        """,
    ),
    "AutogradError": _mistake(
        "x, result = ex.ones(3, requires_grad=True), ex.empty(3)", "ex.exp(x, out=result)", "result = ex.exp(x)"
    ),
    "NoGradientPathError": _mistake(
        "x = ex.ones(3, requires_grad=True)",
        """
        loss = ex.tensor(x.sum().item())
        loss.backward()
        """,
        """
        loss = x.sum()
        loss.backward()
        """,
    ),
    "GraphFreedError": _mistake(
        """
        x = ex.ones(3, requires_grad=True)
        loss = (x * x).sum()
        """,
        """
        loss.backward()
        loss.backward()
        """,
        """
        loss.backward(retain_graph=True)
        loss.backward()
        """,
    ),
    "OverwrittenError": _mistake(
        """
        x = ex.ones(3, requires_grad=True)
        y = x.exp()
        """,
        """
        y += 1
        y.sum().backward()
        """,
        """
        y = y + 1
        y.sum().backward()
        """,
    ),
    "LeafWriteError": _mistake(
        "x = ex.ones(3, requires_grad=True)",
        "x += 1",
        """
        with ex.no_grad():
            x += 1
        """,
    ),
    "NotDifferentiableError": _mistake(
        "x = ex.ones(3, requires_grad=True)",
        "ex.special.airy_ai(x).sum().backward()",
        "(x * ex.special.airy_ai(x.detach())).sum().backward()",
    ),
    "GradcheckError": _mistake(
        """
        class Double(ex.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, gradient):
                return FACTOR * gradient


        x = ex.ones(3, dtype=ex.float64, requires_grad=True)
        """,
        """
        FACTOR = 3
        ex.autograd.gradcheck(Double.apply, (x,))
        """,
        """
        FACTOR = 2
        ex.autograd.gradcheck(Double.apply, (x,))
        """,
    ),
    "CheckpointError": _mistake(
        """
        import extempo as ex
        from extempo.utils.checkpoint import checkpoint

        x, lengths = ex.ones(3, requires_grad=True), [2, 3]
        """,
        """
        def block(x):
            return (x[: lengths.pop()] ** 2).sum()  # another length in the second run


        checkpoint(block, x, use_reentrant=False).backward()
        """,
        """
        def block(x, length):
            return (x[:length] ** 2).sum()


        checkpoint(block, x, lengths.pop(), use_reentrant=False).backward()
        """,
    ),
    "FileFormatError": _mistake(
        """
        ex.save({"weights": ex.ones(3)}, "weights.ex")
        """,
        """
        with open("notes.txt", "w") as file:
            file.write("no tensors")
        ex.load("notes.txt")
        """,
        'ex.load("weights.ex")',
    ),
    "NonFiniteError": _mistake(
        """
        import extempo as ex

        weight = ex.zeros(3, requires_grad=True)
        """,
        """
        with ex.inspect.guard():
            (weight * weight).sum().sqrt().backward()  # whose slope at 0 is infinite
        """,
        """
        with ex.inspect.guard():
            ((weight * weight).sum() + 1e-12).sqrt().backward()
        """,
    ),
    "NonFiniteLossError": _mistake(
        """
        import extempo as ex
        from extempo.train import Trainer

        ex.manual_seed(0)
        model = ex.nn.Linear(2, 1)
        optimizer = ex.optim.SGD(model.parameters(), lr=0.1)
        batches = [(ex.ones(4, 2), ex.ones(4, 1))]
        """,
        """
        def loss(output, target):
            return (output - target).sqrt().mean()  # of a negative number


        Trainer(model, loss, optimizer).fit(batches, epochs=1)
        """,
        """
        def loss(output, target):
            return (output - target).abs().sqrt().mean()


        Trainer(model, loss, optimizer).fit(batches, epochs=1)
        """,
    ),
}


class Raised(NamedTuple):
    """An error, and its message with the reader's files named as he would name them."""

    error: Exception
    message: str


def run(program: str) -> Raised | None:
    """What a program raises, run as the reader's train.py in an empty folder."""
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), os.getcwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            exec(compile(program, "train.py", "exec"), {"__name__": "__main__"})
        except Exception as error:
            message = str(error).replace(f"{os.getcwd()}{os.sep}", "")
            message = re.sub(r"\S*extempo-step-\d+", "extempo-step-1", message)  # named by machine and process
            return Raised(error, f"{type(error).__name__}: {message}")
        finally:
            os.chdir(before)
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    return None
