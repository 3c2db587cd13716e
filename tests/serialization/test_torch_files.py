"""Files that PyTorch itself wrote, and PyTorch reading ours."""

from __future__ import annotations

import io
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import UnsupportedError
from extempo.serialization import load, save

torch = pytest.importorskip("torch", reason="writes files with PyTorch: pip install -e '.[conformance]'")
pytestmark = pytest.mark.conformance


def written(obj, **options) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


def assert_equal(ours, theirs) -> None:
    """The same containers with the same bits."""
    if isinstance(theirs, torch.Tensor):
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert str(ours.dtype).removeprefix("extempo.") == str(theirs.dtype).removeprefix("torch.")
        assert ours.requires_grad == theirs.requires_grad
        assert isinstance(ours, nn.Parameter) == isinstance(theirs, torch.nn.Parameter)
        assert ours.stride() == theirs.stride() or not theirs.numel()
        assert torch.equal(torch.from_dlpack(ours.detach()), theirs.detach())
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_equal(ours[key], theirs[key])
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_equal(a, b)
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    ("kind", "args", "shape"),
    [
        ("Linear", (4, 3), (2, 4)),
        ("Conv2d", (3, 4, 3), (1, 3, 6, 6)),
        ("BatchNorm1d", (4,), (5, 4)),
        ("LSTM", (4, 3, 2), (5, 2, 4)),
        ("TransformerEncoderLayer", (4, 2, 8, 0.0), (3, 2, 4)),
    ],
)
def test_a_state_dict_goes_from_a_module_there_to_the_same_module_here(kind, args, shape):
    theirs, ours = getattr(torch.nn, kind)(*args), getattr(nn, kind)(*args)
    state = load(written(theirs.state_dict()))
    assert type(state) is OrderedDict
    assert_equal(state, theirs.state_dict())
    ours.load_state_dict(state)
    x = np.random.default_rng(0).normal(size=shape).astype("f4")
    expected, got = theirs.train(False)(torch.from_numpy(x)), ours.train(False)(ex.from_numpy(x))
    if isinstance(expected, tuple):
        expected, got = expected[0], got[0]
    np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_checkpoint_of_a_training_run_is_read(protocol):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    scheduler.step()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": 3,
        "best": np.float64(0.25),
        "history": [(0, 1.5), (1, float("inf"))],
        "version": torch.__version__,
    }
    back = load(written(checkpoint, pickle_protocol=protocol), map_location="cpu", weights_only=True)
    assert back["scheduler"]["milestones"] == Counter([2, 4])
    assert_equal(back, checkpoint)


def test_training_goes_on_here_from_a_checkpoint_made_there():
    theirs, ours = torch.nn.Linear(3, 2), nn.Linear(3, 2)
    optimizers = torch.optim.Adam(theirs.parameters(), lr=0.1), optim.Adam(ours.parameters())
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")

    def step(library, model, optimizer):
        optimizer.zero_grad()
        (model(library.from_numpy(x)) ** 2).mean().backward()
        optimizer.step()

    for _ in range(3):
        step(torch, theirs, optimizers[0])
    back = load(written({"model": theirs.state_dict(), "optimizer": optimizers[0].state_dict()}))
    ours.load_state_dict(back["model"])
    optimizers[1].load_state_dict(back["optimizer"])
    for _ in range(3):
        step(torch, theirs, optimizers[0])
        step(ex, ours, optimizers[1])
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_tensors_of_every_dtype_views_and_tied_weights_are_read():
    base = torch.arange(12.0).view(3, 4)
    tied = torch.nn.Parameter(torch.randn(2, 2))
    names = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    obj = {
        "dtypes": [torch.tensor([0, 1, 1]).to(getattr(torch, name)) for name in names],
        "views": [base, base.t(), base[1:, ::2], base[0, 0], base[:0], torch.zeros(1).expand(3)],
        "tied": [tied, tied, torch.nn.Parameter(tied.detach(), requires_grad=False)],
        "more": {"size": torch.Size([1, 2]), "empty": torch.zeros(0, 3), "default": defaultdict(int, {"a": 1})},
        "channels": torch.randn(1, 2, 3, 3).contiguous(memory_format=torch.channels_last),
        "grad": torch.ones(2, requires_grad=True),
    }
    back = load(written(obj))
    assert_equal(back["dtypes"], obj["dtypes"])
    assert_equal(back, obj)
    back["views"][0].fill_(7.0)
    assert back["views"][1].eq(7.0).all()
    assert back["tied"][0] is back["tied"][1]
    assert np.shares_memory(back["tied"][0].detach().numpy(), back["tied"][2].numpy())


def test_a_file_without_checksums_is_read():
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        file = written(torch.arange(3))
    finally:
        torch.serialization.set_crc32_options(before)
    assert load(file).tolist() == [0, 1, 2]


def test_files_on_disk_are_read_and_mapped(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"w": torch.arange(5.0)}, path)
    for mmap in (False, True):
        assert load(path, mmap=mmap)["w"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.nn.LazyLinear(1), r"UninitializedParameter, .*call it once in PyTorch"),
        (lambda: torch.optim.SparseAdam([torch.ones(1)]), r"SparseAdam, .*optimizer\.state_dict\(\)"),
        (lambda: torch.ones(2).to_sparse(), r"x\.to_dense\(\)"),
        (lambda: torch.ones(2, dtype=torch.complex64), r"torch\.view_as_real\(x\)"),
        (lambda: torch.ones(2, dtype=torch.complex64).conj().imag, r"resolve_neg|view_as_real"),
        (lambda: torch.ones(2, dtype=torch.uint16), r"torch\.uint16"),
        (lambda: torch.zeros(2, device="meta"), r"tensor without values"),
        (lambda: [print], r"builtins\.print, which is refused"),
    ],
)
def test_what_is_not_plain_data_is_refused_by_name(make, message):
    with pytest.raises(UnsupportedError, match=message):
        load(written(make()))


LAYERS = {
    "Linear": ((3, 4), (2, 3)),
    "Bilinear": ((3, 3, 4), None),
    "Conv1d": ((3, 4, 2), (2, 3, 5)),
    "Conv2d": ((3, 4, 2, 1, "same", 1, 1, True, "reflect"), (2, 3, 5, 5)),
    "ConvTranspose2d": ((3, 4, 2), (2, 3, 5, 5)),
    "BatchNorm2d": ((3,), (2, 3, 5, 5)),
    "InstanceNorm1d": ((3,), (2, 3, 5)),
    "GroupNorm": ((1, 3), (2, 3, 5)),
    "LayerNorm": ((3,), (2, 3)),
    "RMSNorm": ((3,), (2, 3)),
    "LSTM": ((3, 4, 2), (5, 2, 3)),
    "GRU": ((3, 4), (5, 2, 3)),
    "RNN": ((3, 4), (5, 2, 3)),
    "MultiheadAttention": ((4, 2), None),
    "TransformerEncoderLayer": ((4, 2, 8), (5, 2, 4)),
    "TransformerDecoderLayer": ((4, 2, 8), None),
    "MaxPool2d": ((2,), (2, 3, 4, 4)),
    "AdaptiveAvgPool2d": ((2,), (2, 3, 4, 4)),
    "Upsample": ((None, 2), (2, 3, 4, 4)),
    "ReflectionPad2d": ((1,), (2, 3, 4, 4)),
    "PReLU": ((), (2, 3)),
    "Softmax": ((1,), (2, 3)),
    "Dropout": ((0.5,), (2, 3)),
    "Flatten": ((), (2, 3, 4)),
    "CrossEntropyLoss": ((), None),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_whole_layer_of_pytorch_comes_back_as_extempos_and_computes_the_same(name):
    args, shape = LAYERS[name]
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args).eval()
    back = load(written(theirs), weights_only=False)
    mine = getattr(nn, name)(*args)
    assert type(back) is type(mine)
    assert not back.training
    assert vars(mine).keys() <= vars(back).keys()
    if shape is not None:
        x = torch.randn(shape)
        expected, found = theirs(x), back(ex.from_dlpack(x))
        while isinstance(expected, tuple):
            expected, found = expected[0], found[0]
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_hooks_in_a_file_of_pytorch_are_refused_in_words():
    layer = torch.nn.Linear(1, 1)
    layer.register_forward_hook(print)
    with pytest.raises(UnsupportedError, match=r"builtins\.print|has hooks"):
        load(written(layer))


def test_older_and_compiled_files_are_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"before version 1\.6; .*torch\.save\(torch\.load\(path\), path\)"):
        load(written(torch.ones(1), _use_new_zipfile_serialization=False))


def test_pytorch_reads_our_tensors_through_safetensors(tmp_path):
    safetensors_torch = pytest.importorskip("safetensors.torch", reason="PyTorch's reader: pip install safetensors")
    model = nn.Linear(3, 2)
    path = tmp_path / "model.safetensors"
    save(model.state_dict(), path)
    theirs = torch.nn.Linear(3, 2)
    theirs.load_state_dict(safetensors_torch.load_file(path))
    np.testing.assert_array_equal(theirs.weight.detach().numpy(), model.weight.detach().numpy())
