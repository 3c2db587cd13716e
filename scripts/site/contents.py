"""Which pages the reference has: names of `extempo` by families of ops, layers by kind, a page for each namespace.

A name finds its group by the module that defines it; a public module that is not listed gets a page all the same.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from scripts.site import public_names


class Plan(NamedTuple):
    """A page: which names of a namespace it has, in groups by the modules that define them."""

    path: str
    title: str
    namespace: str
    text: str
    families: Mapping[str, str] = MappingProxyType({})  # title of a group -> modules; none: one group of all names


OPS = [
    Plan(
        "running",
        "Running and differentiating",
        "extempo",
        "How code runs: compiled, batched, ragged, eager, with or without gradients; see [Compiling](../compiling.md),"
        " [Batching](../batching.md) and [Ragged tensors](../ragged.md).",
        {
            "Compiling and batching": "tracing.api batching.api batching.cells func.batching comparing.calling",
            "Profiling": "profiling.api",
            "Watching in the browser": "studio_server.api",
            "Programs": "exporting.building exporting.files exporting.onnx_import.module",
            "Branches and loops as functions": "exporting.control_flow",
            "Ragged tensors": "ragged_tensors.creation ragged_tensors.padding ragged_tensors.tensor nested",
            "Gradients and precision": "core.context amp.autocasting amp.scaler",
            "Files": "serialization.loading serialization.saving",
            "Graphs": "core.graph inspect.explaining",
            "Stepping": "inspect.breakpoints inspect.watching inspect.recording",
        },
    ),
    Plan(
        "creation",
        "Creating tensors",
        "extempo",
        "Tensors from Python and NumPy values, and tensors of given sizes.",
        {
            "From values": "ops.creation",
            "Of given sizes": "ops.factories ops.ranges",
            "Windows": "signal.older_windows",
            "PyTorch's older types": "compat.legacy_types",
        },
    ),
    Plan(
        "random-numbers",
        "Random numbers",
        "extempo",
        "Seeds and samples. [extempo.random](random.md) has what controls generators.",
        {"Samples and seeds": "ops.sampling random"},
    ),
    Plan(
        "elementwise",
        "Elementwise functions",
        "extempo",
        "Each element of the result comes from one element of each input; inputs are broadcast to a common shape.",
        {
            "Arithmetic": "ops.arithmetic ops.division ops.powers",
            "Exponentials, logarithms, trigonometry": "ops.transcendental",
            "Rounding": "ops.rounding",
            "Choosing and bounding": "ops.choice",
            "Comparing and logic": "ops.comparison",
            "Special functions": "ops.bessel ops.error_functions ops.gamma_functions ops.limits",
            "Conversion": "ops.convert",
        },
    ),
    Plan(
        "reductions",
        "Reductions, scans, sorting",
        "extempo",
        "Functions that take elements along dimensions together.",
        {
            "Reductions": "ops.reduce",
            "Statistics": "ops.statistics",
            "Norms and distances": "ops.norms",
            "Running along a dimension": "ops.scan ops.softmaxes ops.differences",
            "Sorting": "ops.sorting",
            "Counting and searching": "ops.counting",
        },
    ),
    Plan(
        "shapes",
        "Shapes, joining, splitting",
        "extempo",
        "The same elements in another shape or order.",
        {
            "Shapes and views": "ops.shaping ops.view",
            "Joining": "ops.join",
            "Splitting": "ops.splitting",
            "Rearranging": "ops.arrange",
        },
    ),
    Plan(
        "indexing",
        "Indexing",
        "extempo",
        "Reading and writing elements by index, mask or diagonal.",
        {"Reading": "ops.index", "Gathering and scattering": "ops.scattering", "Diagonals": "ops.diagonals"},
    ),
    Plan(
        "matrices",
        "Products and matrices",
        "extempo",
        "Products of tensors, and PyTorch's older names for linear algebra; [extempo.linalg](linalg.md) has the newer.",
        {
            "Products": "ops.products ops.contraction",
            "Matrices": "ops.matrices ops.systems ops.factors ops.linalg_older",
        },
    ),
    Plan(
        "neural-ops",
        "Neural-network functions at the top level",
        "extempo",
        "Names that PyTorch has at its top level, too; [nn.functional](nn.functional.md) is where they are looked for.",
        {
            "Activations": "ops.activation",
            "Convolution and pooling": "ops.conv ops.pool ops.padding ops.grid_sampling",
            "Normalization, dropout, embedding, distances": "ops.normalization ops.dropouts ops.toplevel ops.loss",
        },
    ),
    Plan(
        "types",
        "Types, devices, settings",
        "extempo",
        "Element types, what holds for the whole process, and questions about tensors.",
        {
            "Types, devices, layouts": "core.types core.device compat.sym_types",
            "Settings": "compat.settings core.printing",
            "Questions": "ops.properties",
            "Constants": " __init__",
        },
    ),
]

NN = {
    "Base and containers": "nn.module nn.parameter nn.containers",
    "Linear, embedding, distance": "nn.linear_layers nn.embedding_layers nn.distance_layers",
    "Convolution": "nn.conv_layers",
    "Pooling": "nn.pooling_layers",
    "Normalization": "nn.norm_layers nn.sync_batch_norm",
    "Dropout": "nn.dropout_layers",
    "Activations": "nn.activation_layers",
    "Shapes, padding, resizing": "nn.shape_layers",
    "Recurrent": "nn.recurrent nn.recurrent_cells",
    "Trees": "nn.trees",
    "Attention": "nn.attention nn.transformer",
    "Losses": "nn.losses nn.pair_losses nn.adaptive_softmax",
    "Sizes found at the first call": "nn.lazy_layers",
}
NN_PAGES = [
    (
        "nn",
        "nn: base, linear, convolution",
        "Modules and the layers that most models begin with.",
        ("Base", "Linear", "Convolution", "Pooling"),
    ),
    (
        "nn.layers",
        "nn: normalization, activation, shape",
        "Layers between those with weights, and lazy layers.",
        ("Norm", "Dropout", "Activations", "Shapes", "Sizes"),
    ),
    (
        "nn.sequences",
        "nn: recurrent, trees, attention",
        "Layers for sequences and trees; see also [Batching](../batching.md).",
        ("Recurrent", "Trees", "Attention"),
    ),
    (
        "nn.losses",
        "nn: losses",
        "Losses as layers; [nn.functional](nn.functional.md) has them as functions.",
        ("Losses",),
    ),
]
FUNCTIONAL = {
    "Linear and attention": "ops.products ops.attention",
    "Convolution and pooling": "ops.conv ops.pool ops.patches",
    "Activations": "ops.activation ops.transcendental",
    "Normalization and dropout": "ops.normalization ops.dropouts",
    "Losses and distances": "ops.loss ops.class_loss ops.ctc ops.norms",
    "Lookup": "ops.lookup ops.index",
    "Shapes and images": "ops.arrange ops.padding ops.resample ops.grid_sampling",
}

NAMESPACES = {
    "nn.functional": "Layers and losses as functions.",
    "nn.init": "Fill parameters in place before training.",
    "nn.utils": "Clip gradients, change layers while they train, and the like.",
    "nn.utils.rnn": "Sequences of different length, packed or padded.",
    "nn.utils.parametrize": "A parameter as a function of another.",
    "nn.utils.parametrizations": "Parametrizations that are ready to use.",
    "nn.utils.prune": "Masks that set parts of parameters to zero.",
    "nn.attention": "Attention by PyTorch's module name.",
    "optim": "Optimizers; see [Training](../training.md).",
    "optim.lr_scheduler": "Learning rates over time.",
    "optim.swa_utils": "Averages of weights.",
    "data": "Data sets, samplers, loaders; `extempo.utils.data` is the same.",
    "train": "The trainer and what watches it; see [Training](../training.md).",
    "metrics": "Figures of how good a model is; see [Metrics](../metrics.md).",
    "inspect": "[Looking inside](../inspecting.md), [Stepping](../stepping.md), [Who is to blame](../blaming.md).",
    "memory": "See [Who is to blame](../blaming.md).",
    "profiling": "What goes with `ex.profile`; see [Where does the time go?](../profiling.md).",
    "autograd": "Gradients.",
    "autograd.functional": "Jacobians and products with them.",
    "autograd.graph": "The recorded graph.",
    "func": "Functions of functions: gradients, Jacobians, mapping over a dimension.",
    "linalg": "Linear algebra.",
    "special": "Special functions.",
    "distributions": "Probability distributions.",
    "distributions.kl": "Kullback-Leibler divergence.",
    "distributions.transforms": "Invertible functions that make distributions of others.",
    "distributions.constraints": "Which values a parameter or a sample may have.",
    "distributions.utils": "For authors of distributions.",
    "random": "Seeds and states of generators.",
    "masked": "Reductions over the elements that a mask keeps.",
    "nested": "PyTorch's names for [ragged tensors](../ragged.md).",
    "signal.windows": "Window functions.",
    "amp": "PyTorch's names for mixed precision: `autocast` changes no number here, `GradScaler` scales.",
    "exporting": "Programs, and what makes and changes them; see [A model without its class](../exporting.md).",
    "serialization": "Saving and loading.",
    "utils.checkpoint": "Compute again in backward what forward did not keep.",
    "utils.dlpack": "Tensors of other libraries, on the same memory.",
    "testing": "Compare results, check gradients and ops of your own.",
    "backends": "What computes. The switches that scripts set (`cudnn.benchmark` and the like) have no effect.",
    "cpu": "The one device there is.",
    "errors": "What Extempo raises; the [error index](../errors.md) has cures.",
}

CORE = {"extempo", "extempo.nn", "extempo.nn.functional", "extempo.optim", "extempo.data", "extempo.train"}

# What names mean that are neither functions nor classes, where their value does not say it.
CONSTANTS = {
    "channels_last": "Memory order of images whose channels lie side by side: for (batch, channels, height, width).",
    "channels_last_3d": "Memory order of volumes whose channels lie side by side: for 5 dimensions.",
    "contiguous_format": "Memory order in which the last dimension lies side by side: row-major.",
    "preserve_format": "The memory order of the input, where it has one without gaps; otherwise row-major.",
    "default_generator": "The generator that draws where none is given; `ex.manual_seed` seeds it.",
    "jagged": "The layout of ragged tensors.",
    "strided": "The layout of ordinary tensors.",
    "newaxis": "None: `x[ex.newaxis]` has one more dimension of size 1.",
    "real_vector": "Vectors of numbers that are not NaN.",
}


def plans() -> list[Plan]:
    layers = [
        Plan(path, title, "extempo.nn", text, {k: v for k, v in NN.items() if k.startswith(groups)})
        for path, title, text, groups in NN_PAGES
    ]
    known = {plan.namespace for plan in OPS + layers} | {f"extempo.{name}" for name in NAMESPACES}
    new = [name.removeprefix("extempo.") for name in public_names.namespaces() if name not in known]
    return [*OPS, *layers, *(_of_namespace(name) for name in [*NAMESPACES, *new])]


def _of_namespace(name: str) -> Plan:
    """A page for all names of a namespace; one that nobody has described says what its module says."""
    text = NAMESPACES.get(name)
    if text is None:
        text = (inspect.getdoc(importlib.import_module(f"extempo.{name}")) or "").split("\n\n")[0]
    return Plan(name, name, f"extempo.{name}", text, FUNCTIONAL if name == "nn.functional" else {})
