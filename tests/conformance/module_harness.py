"""One module class of PyTorch in, the ModuleOutcome out.

Every sample of PyTorch's `module_db`, and of `MORE_SAMPLES` for classes that it leaves out, in float32 and float64, in
training and evaluation: both modules are made from the same arguments, ours loads PyTorch's `state_dict` as it is, and
repr, results, gradients of all inputs and parameters, and buffers after the call are compared. In training, 20 steps of
SGD from the same weights must give the same losses and the same weights.
A sample does not count where PyTorch itself raises.
"""

from __future__ import annotations

import contextlib
import random
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_modules import FunctionInput, ModuleInput, module_db

import extempo as ex
from extempo import optim

from . import excuses
from .compare import Mismatch, match_arrays, match_structure, our_array
from .convert import LeftOut, Twins, Unmappable, leaves, rebuild, refuse_by_design, to_numpy

DTYPES = (torch.float32, torch.float64)
N_STEPS = 20
N_TRAINED = 12  # samples per class and dtype: some classes have hundreds
LEARNING_RATE = 0.002  # with 0.01 some attention samples diverge, and rounding with them

# Classes of torch.nn that Extempo does not have, each with its reason.
NOT_HERE = {
    "Container": "an old name of Module",
    "CrossMapLRN2d": "LocalResponseNorm computes the same",
    "DataParallel": "there is one device",
    "NLLLoss2d": "an old name of NLLLoss",
}

# Classes that are no layers: they compute nothing by themselves.
NOT_LAYERS = {
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "RNNBase",
    "RNNCellBase",
    "Sequential",
}

# Compared where there are several processes, as PyTorch's needs them: tests/distributed/test_reducer.py.
OF_PROCESSES = {"SyncBatchNorm"}

# Where the result depends on the seed, shape and dtype are compared.
RANDOM = {
    "AlphaDropout": "random in training",
    "Dropout": "random in training",
    "Dropout1d": "random in training",
    "Dropout2d": "random in training",
    "Dropout3d": "random in training",
    "FeatureAlphaDropout": "random in training",
    "RReLU": "random in training",
}

# The first argument of these is the log_softmax of the sample's, in both libraries: PyTorch's ctc_loss gives the
# gradient with respect to the input of the log_softmax that made its argument.
AFTER_LOG_SOFTMAX = {"CTCLoss"}

# (relative, absolute) per dtype: one call, and 20 steps, in which rounding adds up.
ONE_CALL = {"float64": excuses.DEFAULT.float64, "float32": excuses.DEFAULT.float32}
TRAINING = {"float64": (1e-9, 1e-9), "float32": (1e-4, 1e-5)}
# Classes whose weights may differ by more after training in float32, with the reason.
ROUGH_TRAINING = {
    "LinearCrossEntropyLoss": ((1e-4, 1e-4), "losses of hundreds: steps of that size round at 1e-5"),
}
# Classes that are held to less than ONE_CALL, with the reason.
TOLERANCES = {
    "CTCLoss": ({"float64": (1e-7, 1e-7), "float32": (1e-3, 1e-4)}, "sums of 50 time steps in logarithms, float32"),
    "MultiheadAttention": (
        {"float64": (1e-7, 1e-7), "float32": (1e-4, 5e-5)},
        "gradients of the output projection add up to much less than their terms",
    ),
}


@dataclass
class ModuleOutcome:
    """What became of one class."""

    name: str
    status: str  # "pass", "fail", "missing" or "left out"
    reason: str = ""
    n_compared: int = 0
    n_trained: int = 0


def class_names() -> list[str]:
    """Every layer and loss of torch.nn."""
    found = {name for name in dir(torch.nn) if _is_module_class(getattr(torch.nn, name))}
    return sorted(found - NOT_LAYERS - OF_PROCESSES)


def _is_module_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def module_report() -> list[tuple[str, str]]:
    """(name, status) of every layer and loss of torch.nn, the status with its reason if it is not "pass"."""
    outcomes = [run(name) for name in class_names()]
    return [(o.name, f"{o.status}: {o.reason}" if o.reason else o.status) for o in outcomes]


def run(name: str) -> ModuleOutcome:
    """Compare all samples of one class, up to the first that differs."""
    torch.set_num_threads(1)
    if name in NOT_HERE:
        return ModuleOutcome(name, "missing", NOT_HERE[name])
    if not hasattr(ex.nn, name):
        return ModuleOutcome(name, "missing", "not yet")
    outcome = ModuleOutcome(name, "pass")
    with warnings.catch_warnings(), np.errstate(all="ignore"), _recorded_constructors():
        warnings.simplefilter("ignore")
        for label, sample, dtype, training in _samples(name):
            try:
                _check_sample(name, sample, dtype, training, outcome)
            except LeftOut:
                continue
            except (Mismatch, Unmappable) as error:
                outcome.status, outcome.reason = "fail", f"{label}: {' '.join(str(error).split())}"
                return outcome
    if outcome.n_compared == 0:
        outcome.status, outcome.reason = "left out", "no sample"
    return outcome


# ---- samples


def _samples(name: str) -> Iterator[tuple[str, ModuleInput, torch.dtype, bool]]:
    infos = [info for info in module_db if info.module_cls.__name__ == name]
    for dtype in DTYPES:
        for training in (True, False):
            label = f"{str(dtype).removeprefix('torch.')} {'train' if training else 'eval'}"
            _seed(zlib.crc32(f"{name} {label}".encode()))
            samples: list[ModuleInput] = []
            for info in infos:
                samples += info.module_inputs_func(
                    info, device="cpu", dtype=dtype, requires_grad=True, training=training
                )
            samples += [_more(text, dtype) for text in MORE_SAMPLES.get(name, ())]
            for number, sample in enumerate(samples):
                yield f"{label} {number} {sample.desc}".strip(), sample, dtype, training


def _more(text: str, dtype: torch.dtype) -> ModuleInput:
    """A sample from `constructor arguments -> forward arguments`; x(2, 3) and n(5, 2, 3) are random tensors in it."""

    def x(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=dtype).requires_grad_()

    def n(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(high, shape)

    def call(*args: Any, **kwargs: Any) -> FunctionInput:
        return FunctionInput(*args, **kwargs)

    made, _, given = text.partition("->")
    scope = {"x": x, "n": n, "call": call, "torch": torch}
    return ModuleInput(*(eval(f"call({part.strip()})", scope) for part in (made, given)), desc=text)


# Constructor arguments -> forward arguments, for classes or cases that module_db does not have.
MORE_SAMPLES: dict[str, tuple[str, ...]] = {
    "AdaptiveLogSoftmaxWithLoss": (
        "8, 20, [4, 10], div_value=2.0 -> x(6, 8), torch.tensor([1, 5, 12, 0, 19, 9])",
        "8, 20, [4], head_bias=True -> x(8), torch.tensor(7)",
    ),
    "AlphaDropout": ("0.3 -> x(3, 4)", "0.0 -> x(3, 4)"),
    "BatchNorm1d": ("4, momentum=None -> x(3, 4)", "4, bias=False -> x(3, 4, 2)"),
    "BatchNorm2d": ("4, affine=False, track_running_stats=False -> x(3, 4, 2, 2)",),
    "BCEWithLogitsLoss": ("pos_weight=torch.tensor([1.0, 2.0, 3.0]) -> x(4, 3), x(4, 3).detach().sigmoid()",),
    "CELU": ("2.0, True -> x(3).detach()",),
    "ChannelShuffle": ("2 -> x(1, 4, 2, 2)",),
    "Conv1d": ("4, 6, 3, padding=2, padding_mode='circular', groups=2 -> x(2, 4, 7)",),
    "Conv2d": (
        "2, 3, (3, 2), padding='same', padding_mode='reflect', dilation=2 -> x(2, 5, 6)",
        "2, 3, 3, padding=(1, 2), padding_mode='replicate', bias=False -> x(1, 2, 5, 6)",
    ),
    "ConvTranspose1d": ("4, 2, 3, 2 -> x(1, 4, 5), output_size=[12]",),
    "ConvTranspose2d": ("4, 2, 3, (2, 3), 1, groups=2 -> x(1, 4, 5, 5), output_size=(1, 2, 10, 15)",),
    "CosineSimilarity": ("-> x(3, 4), x(3, 4)", "dim=0, eps=1e-3 -> x(3), x(3)"),
    "CrossEntropyLoss": ("label_smoothing=0.1, ignore_index=1 -> x(5, 3), torch.tensor([0, 1, 2, 2, 1])",),
    "Dropout": ("0.3 -> x(3, 4)", "0.0 -> x(3, 4)"),
    "Dropout1d": ("0.3 -> x(3, 4)", "0.3 -> x(2, 3, 4)"),
    "Dropout2d": ("0.3 -> x(2, 3, 4, 4)",),
    "Dropout3d": ("0.3 -> x(2, 3, 4, 4, 4)",),
    "Embedding": ("5, 3, -1, scale_grad_by_freq=True -> n(5, 4, 2)", "5, 3, max_norm=0.5, norm_type=1.0 -> n(5, 4)"),
    "EmbeddingBag": (
        "10, 3 -> n(10, 4, 2)",
        "10, 3, mode='sum' -> n(10, 6), torch.tensor([0, 2, 2]), x(6)",
        "10, 3, mode='max', padding_idx=0 -> n(10, 6), torch.tensor([0, 4])",
        "10, 3, 0.5, include_last_offset=True -> n(10, 6), torch.tensor([0, 2, 6])",
    ),
    "FeatureAlphaDropout": ("0.3 -> x(2, 3, 4)",),
    "Flatten": ("-> x(2, 3, 4)", "0, 1 -> x(2, 3, 4)"),
    "Fold": ("(4, 5), 2, padding=1, stride=(2, 1) -> x(1, 12, 18)", "3, 2 -> x(4, 4)"),
    "GroupNorm": ("2, 4, bias=False -> x(3, 4, 2)",),
    "Hardsigmoid": ("-> x(3, 4)", "True -> x(3).detach()"),
    "Identity": ("3, unused=True -> x(2, 3)",),
    "InstanceNorm1d": ("3, affine=True, track_running_stats=True -> x(3, 5)",),
    "LazyBatchNorm1d": ("-> x(3, 4, 2)",),
    "LazyBatchNorm2d": ("-> x(3, 4, 2, 2)",),
    "LazyBatchNorm3d": ("-> x(3, 4, 2, 2, 1)",),
    "LazyInstanceNorm1d": ("-> x(3, 4, 2)",),
    "LazyInstanceNorm2d": ("affine=False -> x(3, 4, 2, 2)",),
    "LazyInstanceNorm3d": ("track_running_stats=False -> x(3, 4, 2, 2, 1)",),
    "LazyLinear": ("3 -> x(2, 4)", "3, bias=False -> x(4)"),
    "LayerNorm": ("(3, 2), bias=False -> x(4, 3, 2)",),
    "MaxUnpool1d": (
        "2 -> x(1, 3), torch.tensor([[0, 3, 5]])",
        "2, 3 -> x(1, 2), torch.tensor([[0, 3]]), output_size=[6]",
    ),
    "MaxUnpool2d": ("2 -> x(1, 1, 1, 2), torch.tensor([[[[1, 6]]]])",),
    "MaxUnpool3d": ("2 -> x(1, 1, 1, 2), torch.tensor([[[[1, 14]]]])",),
    "NLLLoss": ("torch.tensor([1.0, 2.0, 3.0]), ignore_index=1, reduction='sum' -> x(5, 3), n(3, 5)",),
    "PairwiseDistance": ("-> x(3, 4), x(3, 4)", "1, 1e-3, True -> x(4), x(4)"),
    "PixelShuffle": ("2 -> x(1, 8, 3, 2)", "2 -> x(4, 3, 2)"),
    "PixelUnshuffle": ("2 -> x(1, 2, 6, 4)",),
    "PReLU": ("4, init=0.1 -> x(2, 4, 3)",),
    "RReLU": ("-> x(3, 4)", "0.2, 0.2 -> x(3, 4)"),
    "TransformerDecoder": (
        "torch.nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2 -> x(3, 2, 4), x(5, 2, 4)",
        "torch.nn.TransformerDecoderLayer(4, 2, 8, 0.0, 'gelu', norm_first=True, batch_first=True), 1, "
        "torch.nn.LayerNorm(4) -> x(2, 3, 4), x(2, 5, 4)",
    ),
    "TripletMarginLoss": ("-> x(3, 4), x(3, 4), x(3, 4)", "0.5, 1.0, swap=True, reduction='none' -> x(4), x(4), x(4)"),
    "TripletMarginWithDistanceLoss": (
        "-> x(3, 4), x(3, 4), x(3, 4)",
        "distance_function=torch.nn.PairwiseDistance(1.0), margin=2.0, swap=True -> x(3, 4), x(3, 4), x(3, 4)",
    ),
    "Unflatten": ("1, (3, -1) -> x(2, 12)",),
    "Unfold": ("2, padding=1, stride=(2, 1) -> x(1, 3, 4, 5)", "(2, 3), 2 -> x(3, 6, 7)"),
    "Upsample": (
        "5 -> x(1, 2, 3)",
        "scale_factor=(2, 1.5), mode='bilinear' -> x(1, 2, 3, 4)",
        "(4, 7), mode='bicubic', align_corners=True -> x(1, 2, 3, 4)",
        "scale_factor=2, mode='trilinear', recompute_scale_factor=True -> x(1, 2, 3, 4, 2)",
    ),
    "UpsamplingBilinear2d": ("scale_factor=2 -> x(1, 2, 3, 4)",),
    "UpsamplingNearest2d": ("(4, 7) -> x(1, 2, 3, 4)",),
}  # fmt: skip


def _seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)  # PyTorch's samples draw from it


# ---- modules as arguments


@contextlib.contextmanager
def _recorded_constructors() -> Iterator[None]:
    """Modules of PyTorch remember what they were made from, so that their counterparts can be made."""
    kinds = [torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoderLayer, torch.nn.LayerNorm]
    originals = [kind.__init__ for kind in kinds]

    def recording(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            self.made_from = (args, kwargs)

        return __init__

    for kind, original in zip(kinds, originals, strict=True):
        kind.__init__ = recording(original)
    try:
        yield
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.__init__ = original


def _counterpart(value: Any) -> Any:
    """A module or function of PyTorch as ours, made from the same arguments."""
    if isinstance(value, torch.nn.Module) and hasattr(value, "made_from"):
        args, kwargs = rebuild(value.made_from, _counterpart)
        return getattr(ex.nn, type(value).__name__)(*args, **kwargs)
    if callable(value) and getattr(torch.nn.functional, getattr(value, "__name__", ""), None) is value:
        return getattr(ex.nn.functional, value.__name__)
    if type(value).__name__ == "LinearCrossEntropyOptions":
        raise LeftOut("options say how PyTorch may save memory, and change no result")
    return Twins(value).ours


# ---- one sample


class _Pair:
    """One sample: PyTorch's module and ours with the same state, and their inputs."""

    def __init__(self, name: str, sample: ModuleInput, dtype: torch.dtype, training: bool) -> None:
        self.name = name
        made = sample.constructor_input
        refuse_by_design([made.args, made.kwargs])
        try:
            self.theirs = getattr(torch.nn, name)(*made.args, **made.kwargs).to(dtype).train(training)
            if name.startswith("Lazy"):  # its first call gives it the state that ours takes its size from
                self.theirs(*sample.forward_input.args, **sample.forward_input.kwargs)
        except Exception as error:
            raise LeftOut("PyTorch raises") from error
        args, kwargs = rebuild((made.args, made.kwargs), _counterpart)
        self.ours = getattr(ex.nn, name)(*args, **kwargs).to(_our_dtype(dtype)).train(training)
        given = sample.forward_input
        self.inputs = Twins([list(given.args), given.kwargs])
        self.name = name
        self.tolerances = TOLERANCES[name][0] if name in TOLERANCES else ONE_CALL
        self._load()

    def _load(self) -> None:
        state = self.theirs.state_dict()
        if list(state) != list(self.ours.state_dict()):
            raise Mismatch(f"state_dict: expected keys {list(state)}, got {list(self.ours.state_dict())}")
        self.ours.load_state_dict(state)

    def call_theirs(self) -> Any:
        args, kwargs = self.inputs.theirs
        if self.name in AFTER_LOG_SOFTMAX:
            args = [args[0].log_softmax(-1), *args[1:]]
        return self.theirs(*args, **kwargs)

    def call_ours(self) -> Any:
        args, kwargs = self.inputs.ours
        if self.name in AFTER_LOG_SOFTMAX:
            args = [args[0].log_softmax(-1), *args[1:]]
        return self.ours(*args, **kwargs)


def _our_dtype(dtype: torch.dtype) -> Any:
    return getattr(ex, str(dtype).removeprefix("torch."))


def _check_sample(name: str, sample: ModuleInput, dtype: torch.dtype, training: bool, outcome: ModuleOutcome) -> None:
    pair = _ours_may_not_raise("constructor", lambda: _Pair(name, sample, dtype, training))
    _match_reprs(pair)
    is_random = training and name in RANDOM
    _check_call(pair, is_random)
    outcome.n_compared += 1
    enough = outcome.n_trained >= N_TRAINED * (1 + DTYPES.index(dtype))
    if training and not is_random and not enough and list(pair.theirs.parameters()):
        _check_training(_Pair(name, sample, dtype, training), dtype)
        outcome.n_trained += 1


def _ours_may_not_raise(what: str, call: Any) -> Any:
    try:
        return call()
    except (LeftOut, Mismatch, Unmappable):
        raise
    except Exception as error:
        raise Mismatch(f"{what} raises {type(error).__name__}: {error}") from error


def _match_reprs(pair: _Pair) -> None:
    expected, actual = repr(pair.theirs), repr(pair.ours)
    expected = expected.replace(
        "NonDynamicallyQuantizableLinear", "Linear"
    )  # what PyTorch's attention calls its Linear
    if expected != actual:
        raise Mismatch(f"repr: expected {expected}, got {actual}")


def _check_call(pair: _Pair, is_random: bool) -> None:
    try:
        theirs = pair.call_theirs()
    except Exception as error:
        raise LeftOut("PyTorch raises") from error
    ours = _ours_may_not_raise("forward", pair.call_ours)
    theirs, ours = _plain(theirs), _plain(ours)
    match_structure(theirs, ours)
    if is_random:
        return
    _match_all("result", leaves(theirs), leaves(ours), pair.tolerances)
    _check_gradients(pair, leaves(theirs), leaves(ours))
    their_state, our_state = pair.theirs.state_dict(), pair.ours.state_dict()
    _match_all(
        "state after the call", list(their_state.values()), [our_state[key] for key in their_state], pair.tolerances
    )


def _plain(value: Any) -> Any:
    """Named tuples (packed sequences, losses) as lists, so that fields with tensors can be compared."""
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _check_gradients(pair: _Pair, theirs: list[Any], ours: list[Any]) -> None:
    outputs = [(t, o) for t, o in zip(theirs, ours, strict=True) if isinstance(t, torch.Tensor) and t.requires_grad]
    for place, (_, o) in enumerate(outputs):
        if not o.requires_grad:
            raise Mismatch(f"result {place} requires no grad")
    if not outputs:
        return
    cotangents = [torch.randn(t.shape, dtype=t.dtype) for t, _ in outputs]
    torch.autograd.backward([t for t, _ in outputs], cotangents)
    ours_of = [ex.from_numpy(to_numpy(c).copy()) for c in cotangents]
    _ours_may_not_raise("backward", lambda: ex.autograd.backward([o for _, o in outputs], ours_of))
    inputs = [("input", t, o) for t, o in pair.inputs.gradient_inputs()]
    named = dict(pair.ours.named_parameters())
    for where, t, o in [*inputs, *((key, p, named[key]) for key, p in pair.theirs.named_parameters())]:
        if t.grad is None or o.grad is None:
            empty = t.grad is None and (o.grad is None or not bool(o.grad.any()))
            if not empty and not (o.grad is None and not bool(t.grad.any())):
                raise Mismatch(f"gradient of {where}: expected {t.grad is not None}, got {o.grad is not None}")
            continue
        _match_all(f"gradient of {where}", [t.grad], [o.grad], pair.tolerances)


def _match_all(where: str, theirs: list[Any], ours: list[Any], tolerances: dict[str, tuple[float, float]]) -> None:
    for t, o in zip(theirs, ours, strict=True):
        if isinstance(t, torch.Tensor):
            bounds = tolerances.get(str(t.dtype).removeprefix("torch."), (0.0, 0.0))
            match_arrays(to_numpy(t), our_array(o), *bounds, where)


# ---- training


def _check_training(pair: _Pair, dtype: torch.dtype) -> None:
    """The same losses and the same weights after steps of SGD on the mean square of all results."""
    their_optimizer = torch.optim.SGD(pair.theirs.parameters(), LEARNING_RATE, momentum=0.9)
    our_optimizer = optim.SGD(pair.ours.parameters(), LEARNING_RATE, momentum=0.9)
    bounds = TRAINING[str(dtype).removeprefix("torch.")]
    if dtype is torch.float32 and pair.name in ROUGH_TRAINING:
        bounds = ROUGH_TRAINING[pair.name][0]
    first: Any = None
    for step in range(N_STEPS):
        losses = []
        for call, optimizer in ((pair.call_theirs, their_optimizer), (pair.call_ours, our_optimizer)):
            results = [leaf for leaf in leaves(_plain(call())) if getattr(leaf, "requires_grad", False)]
            if not results:
                return
            optimizer.zero_grad()
            loss: Any = sum((result * result).mean() for result in results)
            loss.backward()
            optimizer.step()
            losses.append(np.asarray(loss.detach()))
        match_arrays(*losses, *bounds, f"loss of training step {step}")
        first = losses[0] if step == 0 else first
        if losses[0] > 2 * first:
            return  # the steps overshoot, and rounding grows with every one of them
    own = dict(pair.ours.named_parameters())
    for key, parameter in pair.theirs.named_parameters():
        match_arrays(to_numpy(parameter), our_array(own[key]), *bounds, f"{key} after {N_STEPS} steps")
