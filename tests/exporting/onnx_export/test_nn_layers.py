"""Every layer of nn, exported and compared with onnxruntime; in evaluation mode, as a model is shipped."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.exporting import Program

from .agreement import Exported, normal

RNG = np.random.default_rng(0)


def r(*shape):
    return normal(RNG, *shape)


def p(*shape):
    """Probabilities."""
    return ex.sigmoid(r(*shape))


def i(n, *shape):
    return ex.tensor(RNG.integers(0, n, size=shape))


def signs(*shape):
    return ex.sign(r(*shape))


POINTWISE = (
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "LeakyReLU",
    "LogSigmoid", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Dropout", "AlphaDropout", "FeatureAlphaDropout",
)  # fmt: skip

# Each layer with what it is called with; sizes of the first dimension stay open where a third part says so.
LAYERS = {name: (getattr(nn, name), (r(3, 4),), "batch") for name in POINTWISE}
LAYERS |= {f"Dropout{d}d": (getattr(nn, f"Dropout{d}d"), (r(2, 3, *(4,) * d),), "batch") for d in (1, 2, 3)}
for d in (1, 2, 3):
    image = r(2, 4, *(6,) * d)
    LAYERS |= {
        f"AdaptiveAvgPool{d}d": (lambda d=d: getattr(nn, f"AdaptiveAvgPool{d}d")(4), (image,), "batch"),
        f"AdaptiveMaxPool{d}d": (lambda d=d: getattr(nn, f"AdaptiveMaxPool{d}d")(4), (image,), "batch"),
        f"AvgPool{d}d": (lambda d=d: getattr(nn, f"AvgPool{d}d")(3, 2, 1), (image,), "batch"),
        f"MaxPool{d}d": (lambda d=d: getattr(nn, f"MaxPool{d}d")(3, 2, 1), (image,), "batch"),
        f"LPPool{d}d": (lambda d=d: getattr(nn, f"LPPool{d}d")(2, 2), (image.abs(),), "batch"),
        f"BatchNorm{d}d": (lambda d=d: getattr(nn, f"BatchNorm{d}d")(4), (image,), "batch"),
        f"InstanceNorm{d}d": (lambda d=d: getattr(nn, f"InstanceNorm{d}d")(4, affine=True), (image,), "batch"),
        f"Conv{d}d": (lambda d=d: getattr(nn, f"Conv{d}d")(4, 6, 3, 2, 1, groups=2), (image,), "batch"),
        f"ConvTranspose{d}d": (lambda d=d: getattr(nn, f"ConvTranspose{d}d")(4, 3, 3, 2, 1, 1), (image,), "batch"),
        f"CircularPad{d}d": (lambda d=d: getattr(nn, f"CircularPad{d}d")(2), (image,), "batch"),
        f"ConstantPad{d}d": (lambda d=d: getattr(nn, f"ConstantPad{d}d")(2, 1.5), (image,), "batch"),
        f"ReflectionPad{d}d": (lambda d=d: getattr(nn, f"ReflectionPad{d}d")(2), (image,), "batch"),
        f"ReplicationPad{d}d": (lambda d=d: getattr(nn, f"ReplicationPad{d}d")(2), (image,), "batch"),
        f"ZeroPad{d}d": (lambda d=d: getattr(nn, f"ZeroPad{d}d")(2), (image,), "batch"),
    }
    values, places = getattr(nn, f"MaxPool{d}d")(2, return_indices=True)(image)
    LAYERS[f"MaxUnpool{d}d"] = (lambda d=d: getattr(nn, f"MaxUnpool{d}d")(2), (values, places), None)
    for name in ("BatchNorm", "InstanceNorm"):
        LAYERS[f"Lazy{name}{d}d"] = (lambda n=f"Lazy{name}{d}d", x=image: made(getattr(nn, n)(), x), (image,), "batch")
    for name in ("Conv", "ConvTranspose"):
        layer = f"Lazy{name}{d}d"
        LAYERS[layer] = (lambda n=layer, x=image: made(getattr(nn, n)(3, 2), x), (image,), "batch")


def made(layer, *inputs):
    """A lazy layer after its first call."""
    layer(*inputs)
    return layer


class Nest(nn.Module):
    """Containers in use."""

    def __init__(self):
        super().__init__()
        self.listed = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        self.named = nn.ModuleDict({"out": nn.Linear(4, 2)})
        self.weights = nn.ParameterList([nn.Parameter(r(2))])
        self.others = nn.ParameterDict({"b": nn.Parameter(r(2))})

    def forward(self, x):
        for layer in self.listed:
            x = layer(x)
        return self.named["out"](x) * self.weights[0] + self.others["b"]


class Tree(nn.Module):
    """A tree cell on leaves and on their parent."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, y):
        parent = self.cell(self.cell.leaf(x), self.cell.leaf(y))
        return parent.h, parent.c


LAYERS |= {
    "AdaptiveLogSoftmaxWithLoss": (lambda: LogProbs(nn.AdaptiveLogSoftmaxWithLoss(5, 8, [3, 6])), (r(4, 5),), None),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 2), (r(5, 3), r(5, 4)), "batch"),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (r(2, 4, 3, 3),), "batch"),
    "ChildSumTreeLSTMCell": (lambda: Tree(nn.ChildSumTreeLSTMCell(3, 4)), (r(3), r(3)), None),
    "CosineSimilarity": (nn.CosineSimilarity, (r(3, 4), r(3, 4)), "batch"),
    "Embedding": (lambda: nn.Embedding(7, 3), (i(7, 2, 5),), "batch"),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(7, 3), (i(7, 2, 5),), "batch"),
    "Flatten": (nn.Flatten, (r(2, 3, 4),), "batch"),
    "Fold": (lambda: nn.Fold((4, 5), 2), (r(2, 12, 12),), None),
    "GRU": (lambda: nn.GRU(3, 4), (r(5, 2, 3),), "batch"),
    "GRUCell": (lambda: nn.GRUCell(3, 4), (r(2, 3), r(2, 4)), "batch"),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (r(3, 4, 5),), "batch"),
    "LSTM": (lambda: nn.LSTM(3, 4), (r(5, 2, 3),), "batch"),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), (r(2, 3), (r(2, 4), r(2, 4))), None),
    "LayerNorm": (lambda: nn.LayerNorm(4), (r(3, 4),), "batch"),
    "LazyLinear": (lambda: made(nn.LazyLinear(2), r(3, 4)), (r(3, 4),), "batch"),
    "Linear": (lambda: nn.Linear(4, 2), (r(3, 4),), "batch"),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), (r(2, 4, 5, 5),), "batch"),
    "LogSoftmax": (lambda: nn.LogSoftmax(1), (r(3, 4),), "batch"),
    "ModuleDict": (Nest, (r(3, 4),), "batch"),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2), (r(5, 2, 8), r(6, 2, 8), r(6, 2, 8)), None),
    "NaryTreeLSTMCell": (lambda: Tree(nn.NaryTreeLSTMCell(3, 4, arity=2)), (r(3), r(3)), None),
    "PairwiseDistance": (nn.PairwiseDistance, (r(3, 4), r(3, 4)), "batch"),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (r(2, 8, 3, 3),), "batch"),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), (r(2, 2, 4, 4),), "batch"),
    "RMSNorm": (lambda: nn.RMSNorm(4), (r(3, 4),), "batch"),
    "RNN": (lambda: nn.RNN(3, 4, nonlinearity="relu"), (r(5, 2, 3),), "batch"),
    "RNNCell": (lambda: nn.RNNCell(3, 4), (r(2, 3), r(2, 4)), "batch"),
    "Sequential": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh()), (r(3, 4),), "batch"),
    "Softmax": (lambda: nn.Softmax(1), (r(3, 4),), "batch"),
    "Softmax2d": (nn.Softmax2d, (r(2, 3, 4, 4),), "batch"),
    "Softmin": (lambda: nn.Softmin(1), (r(3, 4),), "batch"),
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), (r(3, 4),), "batch"),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16), (r(5, 2, 8), r(4, 2, 8)), None),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2),
        (r(4, 2, 8), r(5, 2, 8)),
        None,
    ),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 16), (r(4, 2, 8), r(5, 2, 8)), None),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2),
        (r(4, 2, 8),),
        "batch",
    ),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16), (r(4, 2, 8),), "batch"),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 3)), (r(4, 6),), "batch"),
    "Unfold": (lambda: nn.Unfold(2), (r(2, 3, 4, 5),), "batch"),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (r(2, 3, 4, 4),), "batch"),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), (r(2, 3, 4, 4),), "batch"),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), (r(2, 3, 4, 4),), "batch"),
    # losses
    "BCELoss": (nn.BCELoss, (p(3, 4), p(3, 4)), "batch"),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, (r(3, 4), p(3, 4)), "batch"),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, (r(3, 4), r(3, 4), signs(3)), "batch"),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), (r(3, 4), i(4, 3)), "batch"),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, (r(3, 4), r(3, 4), p(3, 4)), None),
    "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, (r(3, 4), signs(3, 4)), "batch"),
    "HuberLoss": (nn.HuberLoss, (r(3, 4), r(3, 4)), "batch"),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), (r(3, 4), p(3, 4)), "batch"),
    "L1Loss": (nn.L1Loss, (r(3, 4), r(3, 4)), "batch"),
    "LinearCrossEntropyLoss": (lambda: nn.LinearCrossEntropyLoss(5, 4), (r(3, 5), i(4, 3)), None),
    "MSELoss": (nn.MSELoss, (r(3, 4), r(3, 4)), "batch"),
    "MarginRankingLoss": (nn.MarginRankingLoss, (r(3), r(3), signs(3)), "batch"),
    "MultiLabelMarginLoss": (nn.MultiLabelMarginLoss, (r(2, 4), ex.tensor([[3, 0, -1, 1], [1, -1, 2, 0]])), None),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss, (r(3, 4), ex.tensor(RNG.integers(0, 2, (3, 4)))), None),
    "MultiMarginLoss": (nn.MultiMarginLoss, (r(3, 4), i(4, 3)), None),
    "NLLLoss": (nn.NLLLoss, (ex.log_softmax(r(3, 4), 1), i(4, 3)), "batch"),
    "PoissonNLLLoss": (lambda: nn.PoissonNLLLoss(full=True), (r(3, 4), p(3, 4) * 5), "batch"),
    "SmoothL1Loss": (nn.SmoothL1Loss, (r(3, 4), r(3, 4)), "batch"),
    "SoftMarginLoss": (nn.SoftMarginLoss, (r(3, 4), signs(3, 4)), "batch"),
    "TripletMarginLoss": (nn.TripletMarginLoss, (r(3, 4), r(3, 4), r(3, 4)), "batch"),
    "TripletMarginWithDistanceLoss": (nn.TripletMarginWithDistanceLoss, (r(3, 4), r(3, 4), r(3, 4)), "batch"),
}

EXCUSED = {
    "CTCLoss": "reads its labels to check them, so it is no part of a program; the op ctc_loss has a form",
    "FractionalMaxPool2d": "draws where its windows lie, at every call",
    "FractionalMaxPool3d": "draws where its windows lie, at every call",
    "Module": "the base of all layers",
    "ModuleList": "in ModuleDict",
    "ParameterDict": "in ModuleDict",
    "ParameterList": "in ModuleDict",
    "RNNBase": "the base of RNN, LSTM and GRU",
    "RNNCellBase": "the base of cells",
    "SyncBatchNorm": "sums over processes; in evaluation it is a BatchNorm, which has a form",
}


class LogProbs(nn.Module):
    """The scores of all classes, which is what an exported model needs of it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer.log_prob(x)


def test_every_layer_of_nn_is_here():
    layers = {n for n in dir(nn) if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)}
    assert layers == set(LAYERS) | set(EXCUSED)


def exported(name) -> tuple[Program, tuple]:
    make, inputs, opens = LAYERS[name]
    ex.manual_seed(0)
    layer = make().eval()
    dynamic = [{0: opens}] * len(inputs) if opens else None
    return ex.program(layer, inputs, dynamic=dynamic), inputs


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_a_layer_and_its_onnx_model_agree(name):
    program, inputs = exported(name)
    both = Exported(program)
    both.agree(*inputs)
    if LAYERS[name][2]:
        for n in (1, 2):
            both.agree(*(ex.cat([x] * 2)[:n] for x in inputs))
