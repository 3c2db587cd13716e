"""What `every_op.py` measures besides ops: each layer of `nn`, made with usual arguments, in training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from every_op_cases import (
    CLASSES,
    IMAGE,
    IMAGES,
    PLACES,
    PLANES,
    POSITIVE,
    SEQUENCES,
    SIGNAL,
    SQUARES,
    UNIT,
    VOLUME,
    Case,
    Given,
    Shapes,
    X,
    op,
    words,
)


def layer(name: str, *inputs: Given, make: Callable[[Any, int], Any] | None = None) -> Case:
    """A layer by its name, or by make(nn, size), in training."""

    def prepare(library: Any, size: int) -> Any:
        return getattr(library.nn, name)() if make is None else make(library.nn, size)

    return Case(name, prepare, inputs or (Given(),), "layer")


def _channels(shapes: Shapes) -> Callable[[int], int]:
    return lambda size: shapes[size][1]


PLANE_LAYERS = words(
    "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish PReLU RReLU ReLU "
    "ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Dropout AlphaDropout FeatureAlphaDropout "
    "Flatten"
)
TWO_INPUT_LOSSES = words(
    "L1Loss MSELoss SmoothL1Loss HuberLoss BCEWithLogitsLoss KLDivLoss PoissonNLLLoss SoftMarginLoss "
    "MultiLabelSoftMarginLoss HingeEmbeddingLoss"
)


def _layers() -> Iterator[Case]:
    yield from (layer(name) for name in PLANE_LAYERS)
    yield from (
        layer(name, make=lambda nn, s, n=name: getattr(nn, n)(-1)) for name in ("Softmax", "LogSoftmax", "Softmin")
    )
    yield layer("Threshold", make=lambda nn, s: nn.Threshold(0.1, 0.0))
    yield layer("Unflatten", make=lambda nn, s: nn.Unflatten(1, (2, -1)))
    for name in ("LayerNorm", "RMSNorm"):
        yield layer(name, make=lambda nn, s, n=name: getattr(nn, n)(PLANES[s][1]))
    yield layer("Linear", Given(SQUARES), make=lambda nn, s: nn.Linear(SQUARES[s][1], SQUARES[s][1]))
    narrow = Given(((2, 4), (64, 32), (256, 64)))
    yield layer("Bilinear", narrow, narrow, make=lambda nn, s: nn.Bilinear(*[narrow.shapes[s][1]] * 2, 8))
    words = Given(((2, 4), (32, 16), (1024, 50)), "index", (8, 128, 512))
    yield layer("Embedding", words, make=lambda nn, s: nn.Embedding(words.below[s], 64))
    yield layer("EmbeddingBag", words, make=lambda nn, s: nn.EmbeddingBag(words.below[s], 64))


def _image_layers() -> Iterator[Case]:
    for d, given in ((1, SIGNAL), (2, IMAGE), (3, VOLUME)):
        c = _channels(given.shapes)
        of_channels: dict[str, Callable[[Any, int], tuple[Any, ...]]] = {
            "AvgPool": lambda f, n: f(2),
            "MaxPool": lambda f, n: f(2),
            "LPPool": lambda f, n: f(2, 2),
            "AdaptiveAvgPool": lambda f, n: f(2),
            "AdaptiveMaxPool": lambda f, n: f(2),
            "BatchNorm": lambda f, n: f(n),
            "InstanceNorm": lambda f, n: f(n),
            "Conv": lambda f, n: f(n, n, 3, padding=1),
            "ConvTranspose": lambda f, n: f(n, n, 3, padding=1),
            "Dropout": lambda f, n: f(),
            "ZeroPad": lambda f, n: f(1),
            "ConstantPad": lambda f, n: f(1, 0.5),
            "ReflectionPad": lambda f, n: f(1),
            "ReplicationPad": lambda f, n: f(1),
            "CircularPad": lambda f, n: f(1),
        }
        for name, make in of_channels.items():
            full = f"{name}{d}d"
            yield layer(full, given, make=lambda nn, s, n=full, m=make, c=c: m(getattr(nn, n), c(s)))
        yield layer(f"MaxUnpool{d}d", given, make=lambda nn, s, d=d: _unpooled(nn, d))
    yield layer("GroupNorm", IMAGE, make=lambda nn, s: nn.GroupNorm(2, IMAGES[s][1]))
    yield layer("LocalResponseNorm", IMAGE, make=lambda nn, s: nn.LocalResponseNorm(2))
    yield layer("FractionalMaxPool2d", IMAGE, make=lambda nn, s: nn.FractionalMaxPool2d(2, output_size=3))
    yield layer("FractionalMaxPool3d", VOLUME, make=lambda nn, s: nn.FractionalMaxPool3d(2, output_size=2))
    yield layer("PixelShuffle", IMAGE, make=lambda nn, s: nn.PixelShuffle(2))
    yield layer("PixelUnshuffle", IMAGE, make=lambda nn, s: nn.PixelUnshuffle(2))
    yield layer("ChannelShuffle", IMAGE, make=lambda nn, s: nn.ChannelShuffle(2))
    yield layer("Softmax2d", IMAGE)
    yield layer("Unfold", IMAGE, make=lambda nn, s: nn.Unfold(3))
    folded: Shapes = ((1, 8, 4), (8, 64, 64), (16, 128, 1024))
    yield layer("Fold", Given(folded), make=lambda nn, s: nn.Fold((4, 16, 64)[s], 2, stride=2))
    yield layer("UpsamplingBilinear2d", IMAGE, make=lambda nn, s: nn.UpsamplingBilinear2d(scale_factor=2))
    yield layer("UpsamplingNearest2d", IMAGE, make=lambda nn, s: nn.UpsamplingNearest2d(scale_factor=2))
    yield layer("Upsample", IMAGE, make=lambda nn, s: nn.Upsample(scale_factor=2, mode="bicubic"))
    grid = Given(tuple((n, h, w, 2) for n, _, h, w in IMAGES), "unit")
    yield op("grid_sample", IMAGE, grid, call=lambda t, x, g: t.nn.functional.grid_sample(x, g, align_corners=False))


def _unpooled(nn: Any, d: int) -> Callable[[Any], Any]:
    pool, unpool = getattr(nn, f"MaxPool{d}d")(2, return_indices=True), getattr(nn, f"MaxUnpool{d}d")(2)
    return lambda x: unpool(*pool(x))


def _losses() -> Iterator[Case]:
    yield from (layer(name, X, UNIT) for name in TWO_INPUT_LOSSES)
    yield layer("BCELoss", UNIT, UNIT)
    yield layer("GaussianNLLLoss", X, X, POSITIVE)
    for name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"):
        yield layer(name, X, CLASSES)
    yield layer(
        "MultiLabelMarginLoss", X, PLACES, make=lambda nn, s: lambda x, y: nn.MultiLabelMarginLoss()(x, y % x.shape[1])
    )
    sign = Given(((2,), (256,), (2048,)), "positive")
    yield layer("CosineEmbeddingLoss", X, X, sign)
    yield layer("MarginRankingLoss", X, X, UNIT)
    yield layer("CosineSimilarity", X, X)
    yield layer("PairwiseDistance", X, X)
    for name in ("TripletMarginLoss", "TripletMarginWithDistanceLoss"):
        yield layer(name, X, X, X)
    logs = Given(((8, 2, 4), (50, 16, 20), (100, 64, 30)))
    labels = Given(((2, 2), (16, 10), (64, 20)), "index", (3, 19, 29))
    yield layer("CTCLoss", logs, labels, make=_ctc)


def _ctc(nn: Any, size: int) -> Callable[..., Any]:
    loss = nn.CTCLoss()

    def call(x: Any, y: Any) -> Any:
        n_steps, n_samples, _ = x.shape
        return loss(x.log_softmax(-1), y + 1, (n_steps,) * n_samples, (y.shape[1],) * n_samples)

    return call


def _sequence_layers() -> Iterator[Case]:
    sequence, n = Given(SEQUENCES), lambda s: SEQUENCES[s][2]
    step = Given(tuple((batch, features) for batch, _, features in SEQUENCES))
    for name in ("LSTM", "GRU", "RNN"):
        yield layer(name, sequence, make=lambda nn, s, k=name: getattr(nn, k)(n(s), n(s), batch_first=True))
        yield layer(f"{name}Cell", step, make=lambda nn, s, k=name: getattr(nn, f"{k}Cell")(n(s), n(s)))
    yield layer("MultiheadAttention", sequence, make=_attention)
    for name in ("TransformerEncoderLayer", "TransformerEncoder"):
        yield layer(name, sequence, make=lambda nn, s, k=name: _transformer(nn, n(s), k))
    for name in ("TransformerDecoderLayer", "TransformerDecoder", "Transformer"):
        yield layer(name, sequence, sequence, make=lambda nn, s, k=name: _transformer(nn, n(s), k))


def _attention(nn: Any, size: int) -> Callable[[Any], Any]:
    made = nn.MultiheadAttention(SEQUENCES[size][2], 2, batch_first=True)
    return lambda x: made(x, x, x)


def _transformer(nn: Any, width: int, name: str) -> Any:
    options = {"dim_feedforward": 2 * width, "dropout": 0.0, "batch_first": True}
    if name == "Transformer":
        return nn.Transformer(width, 2, 1, 1, **options)
    side = "Encoder" if "Encoder" in name else "Decoder"
    one = getattr(nn, f"Transformer{side}Layer")(width, 2, **options)
    return one if name.endswith("Layer") else getattr(nn, f"Transformer{side}")(one, 2)


def every_layer() -> list[Case]:
    """All cases of layers."""
    return [case for family in (_layers, _image_layers, _losses, _sequence_layers) for case in family()]


LAYERS_NOT_MEASURED = {
    "SyncBatchNorm": "sums over processes: benchmarks/distributed.py",
    **dict.fromkeys(
        (
            "Module",
            "ModuleDict",
            "ModuleList",
            "ParameterDict",
            "ParameterList",
            "RNNBase",
            "RNNCellBase",
            "Sequential",
        ),
        "computes nothing by itself",
    ),
    **dict.fromkeys(("ChildSumTreeLSTMCell", "NaryTreeLSTMCell"), "PyTorch has no such layer"),
    **dict.fromkeys(("AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"), "linear layers and cross_entropy"),
}
