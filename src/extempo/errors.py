"""The exceptions of Extempo: one tree, imported by everything, importing nothing.

    ExtempoError (RuntimeError)                what all of them are
    ├── ShapeError (ValueError)                sizes or dimensions that do not fit
    ├── DtypeError (TypeError)                 a type that the operation cannot take
    ├── ArgumentError (ValueError)             an option with a value it cannot have
    ├── IndexRangeError (IndexError)           an index or dimension out of range
    ├── UnsupportedError (NotImplementedError) what Extempo does not do, by name
    ├── NumericalError (ValueError)            a singular matrix, and the like
    │   └── NonFiniteError                     a nan or inf that a guard has met
    ├── DiskFullError (OSError)                no space left for a file
    ├── GraphError                             a graph that breaks its own rules
    ├── ExportError                            a model of which no program can be made
    ├── DistributedError                       processes that do not do the same
    │   └── RankLostError                      a process of the group is gone
    └── AutogradError                          backward cannot be done as asked
        ├── NoGradientPathError                no path to what requires grad
        ├── GraphFreedError                    backward again through a freed graph
        ├── OverwrittenError                   a needed value was changed in place
        ├── LeafWriteError                     an in-place write to a leaf with grad
        ├── NotDifferentiableError             an op that has no gradient
        ├── GradcheckError                     a gradient that differs numerically
        └── CheckpointError                    a recomputation took another path

Every message says the operation, what was expected, what came, and what to do next.
"""

from __future__ import annotations


class ExtempoError(RuntimeError):
    """Anything that Extempo itself raises. Catch this to catch them all."""

    _is_about_operands = False  # whether the module and the shapes of operands help

    @property
    def __notes__(self) -> list[str]:
        """What was added with `add_note`, and where the error rose, which is looked up only when somebody reads this:
        most errors that programs catch are never shown."""
        noted: list[str] = self.__dict__.get("_noted", [])
        if not self._is_about_operands or self.__traceback__ is None:
            return noted
        from .core.error_context import notes_of

        return [*noted, *notes_of(self)]

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self.__dict__["_noted"] = notes

    def add_note(self, note: str) -> None:
        """A line below the message when the error is shown."""
        if not isinstance(note, str):
            raise TypeError(f"note must be a str, not '{type(note).__name__}'")
        self.__dict__.setdefault("_noted", []).append(note)


class ShapeError(ExtempoError, ValueError):
    """Sizes or dimensions do not fit the operation.

    The message names the operation and every shape involved. Print the shapes of the operands just before the line;
    a missing `unsqueeze`, a forgotten transpose (`w.T`) or a batch dimension too many are the usual causes.
    """

    _is_about_operands = True


class DtypeError(ExtempoError, TypeError):
    """The element type, or the Python type of an argument, is not one that the operation takes.

    Convert first: `x.float()`, `x.long()`, `x.bool()`, `x.to(dtype)`.
    """

    _is_about_operands = True


class ArgumentError(ExtempoError, ValueError):
    """An option has a value that it cannot have: a negative learning rate, a probability of 1.5, no parameters at all.

    The message names the option, what it may be, and what it was.
    """


class IndexRangeError(ExtempoError, IndexError):
    """An index, or a `dim` argument, lies outside its range.

    Dimensions run from `-x.ndim` to `x.ndim - 1`, indices from `-size` to `size - 1`.
    """

    _is_about_operands = True


class UnsupportedError(ExtempoError, NotImplementedError):
    """Something that Extempo does not do: complex, sparse or quantised tensors, other devices.

    The message names the nearest thing that works.
    """


class NumericalError(ExtempoError, ValueError):
    """A computation that has no answer for these values: a singular matrix, a matrix that is not positive definite.

    The message names another function that has one, or what to add to the matrix.
    """


class NonFiniteError(NumericalError):
    """A guard (`ex.inspect.guard`) has met a nan, or an infinity in a loss, a gradient or a weight.

    The message names the op that made it of finite values, the ranges of these, the module, the line, the way from
    there, and what usually helps at such an op. The optimizer has not seen the gradients.
    """


class DiskFullError(ExtempoError, OSError):
    """A file could not be written, because the disk is full or the user's share of it is used up.

    The message names the file. A checkpoint or a file of `ex.save` that stood there before is whole and as it was: make
    room, then `fit(..., resume=True)` goes on from it.
    """


class GraphError(ExtempoError):
    """A graph that breaks its rules: a static function that looks at values, text that `Graph.parse` cannot read.

    Leave `static=True` out, or keep tensors what Python looked at: `ex.where` in place of `if`.
    """


class ExportError(ExtempoError):
    """No program can be made of a function or module as it stands: it looks at values, or needs a size as a number.

    The message has the line and what to write there; `ex.cond`, `ex.while_loop` and `ex.scan` are branches and loops
    that a program keeps.
    """


class DistributedError(ExtempoError):
    """Processes of a group do not do the same thing, or have not come in time: other code, weights or collectives.

    The message names the ranks. It is the same on every rank, where all of them can know.
    """


class RankLostError(DistributedError):
    """A process of the group has died. `ranks` has its old number; those that are left are numbered anew.

    message: what could not be done.
    ranks: the old numbers of the processes that are gone.

    Training by `DistributedDataParallel` goes on by itself where that is possible (`extempo launch --survive`); what
    cannot be done without the lost rank raises this on all others.
    """

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks


class AutogradError(ExtempoError):
    """Backward cannot be done as asked."""


class NoGradientPathError(AutogradError):
    """The tensor does not depend on any tensor that requires grad.

    The message says where the path was cut, when it is known: a `detach()`, a `no_grad()` block, an operation that
    returns integers, or a value read with `.item()` and put back into a tensor.
    """


class GraphFreedError(AutogradError):
    """Backward went through this graph before and freed it.

    Compute the loss again (the usual fix: a tensor from the last iteration is still part of this one; `detach()` it),
    or keep the graph with `backward(retain_graph=True)`.
    """


class OverwrittenError(AutogradError):
    """A value that backward needs was changed in place after it was used.

    The message says which operation needed it and which line overwrote it. Use the out-of-place form there
    (`x = x + 1` in place of `x += 1`), or write into `x.clone()`.
    """


class LeafWriteError(AutogradError):
    """An in-place write to a leaf tensor that requires grad, or to a view of one.

    Write under `with ex.no_grad():` (as optimizers do), or into a `clone()`.
    """


class NotDifferentiableError(AutogradError):
    """The operation has no gradient, and says why.

    If none is wanted there, `detach()` its input; if one is, use another operation.
    """


class GradcheckError(AutogradError):
    """`ex.autograd.gradcheck` found a gradient that differs from finite differences; the message says where."""


class CheckpointError(AutogradError):
    """The recomputation of a checkpointed function did not repeat what the first run did.

    What it reads from outside must be the same both times: pass it as an argument.
    """
