"""The exceptions of Extempo: one tree, imported by everything, importing nothing.

    ExtempoError (RuntimeError)                what all of them are
    ├── ShapeError (ValueError)                sizes or dimensions that do not fit
    ├── DtypeError (TypeError)                 a type that the operation cannot take
    ├── ArgumentError (ValueError)             an option with a value it cannot have
    ├── IndexRangeError (IndexError)           an index or dimension out of range
    ├── UnsupportedError (NotImplementedError) what Extempo does not do, by name
    ├── NumericalError (ValueError)            a singular matrix, and the like
    ├── DiskFullError (OSError)                no space left for a file
    ├── GraphError                             a graph that breaks its own rules
    ├── ExportError                            a model of which no program can be made
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


class ShapeError(ExtempoError, ValueError):
    """Sizes or dimensions do not fit the operation.

    The message names the operation and every shape involved. Print the shapes of the operands just before the line;
    a missing `unsqueeze`, a forgotten transpose (`w.T`) or a batch dimension too many are the usual causes.
    """


class DtypeError(ExtempoError, TypeError):
    """The element type, or the Python type of an argument, is not one that the operation takes.

    Convert first: `x.float()`, `x.long()`, `x.bool()`, `x.to(dtype)`.
    """


class ArgumentError(ExtempoError, ValueError):
    """An option has a value that it cannot have: a negative learning rate, a probability of 1.5, no parameters at all.

    The message names the option, what it may be, and what it was.
    """


class IndexRangeError(ExtempoError, IndexError):
    """An index, or a `dim` argument, lies outside its range.

    Dimensions run from `-x.ndim` to `x.ndim - 1`, indices from `-size` to `size - 1`.
    """


class UnsupportedError(ExtempoError, NotImplementedError):
    """Something that Extempo does not do: complex, sparse or quantised tensors, other devices.

    The message names the nearest thing that works.
    """


class NumericalError(ExtempoError, ValueError):
    """A computation that has no answer for these values: a singular matrix, a matrix that is not positive definite.

    The message names another function that has one, or what to add to the matrix.
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
