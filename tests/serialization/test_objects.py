"""Whole modules, data sets, optimizers and objects of classes, saved and loaded."""

from __future__ import annotations

import copy
import dataclasses
import functools
import io
import pickle
from collections import namedtuple
from typing import NamedTuple

import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn, optim
from extempo.data import DataLoader, Dataset, Subset, TensorDataset, random_split
from extempo.errors import UnsupportedError
from extempo.serialization import load, save

Point = namedtuple("Point", "x y")  # the old form comes back too


class Sized(NamedTuple):
    size: int
    names: list


@dataclasses.dataclass
class Config:
    width: int
    activation: type = nn.ReLU
    names: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        assert self.width != 7, "a loaded object is not made anew"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int
    parts: tuple


class Encoder(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width), nn.LayerNorm(width)])
        self.act = F.gelu
        self.make_norm = functools.partial(nn.LayerNorm, eps=1e-3)
        self.register_buffer("scale", ex.full((1,), 2.0))
        self.register_buffer("kept", ex.ones(1), persistent=False)

    def forward(self, x):
        for layer in self.layers:
            x = self.act(layer(x))
        return x * self.scale * self.kept


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config(4, names=["a"])
        self.encoder = Encoder()
        self.same = self.encoder
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.parent = [self]

    def forward(self, index):
        return self.head(self.encoder(self.embedding(index)))


class Squares(Dataset):
    def __init__(self, n):
        self.n = n
        self.cache = {3: ex.tensor(9)}

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return index**2


def there_and_back(obj):
    file = io.BytesIO()
    save(obj, file)
    return load(io.BytesIO(file.getvalue()), weights_only=False)


def test_a_whole_model_comes_back_and_computes_the_same():
    model = Model().eval()
    back = there_and_back(model)
    index = ex.tensor([1, 4])
    assert type(back) is Model
    assert not back.training
    assert back(index).equal(model(index))
    assert list(back.state_dict()) == list(model.state_dict())
    assert back.encoder.act is F.gelu
    assert back.encoder.make_norm(3).eps == 1e-3
    assert back.config == model.config
    assert back.encoder.kept.tolist() == [1.0]


def test_tied_weights_stay_tied_and_two_names_of_one_module_are_one():
    back = there_and_back(Model())
    assert back.head.weight is back.embedding.weight
    assert back.same is back.encoder
    assert back.parent[0] is back
    assert len(list(back.parameters())) == len(list(Model().parameters()))


def test_tensors_that_share_memory_share_it_again():
    module = nn.Module()
    module.base = ex.zeros(6)
    module.part = module.base[2:4]
    back = there_and_back(module)
    back.base.fill_(3.0)
    assert back.part.tolist() == [3.0, 3.0]


def test_a_loaded_model_trains_and_registers_what_is_assigned():
    back = there_and_back(Encoder())
    optimizer = optim.SGD(back.parameters(), lr=0.1)
    before = back.layers[0].weight.clone()
    back(ex.ones(2, 4)).sum().backward()
    optimizer.step()
    assert not back.layers[0].weight.equal(before)
    back.extra = nn.Linear(1, 1)
    assert "extra.weight" in back.state_dict()


def test_tensors_of_a_model_have_the_names_of_its_state_in_the_file():
    file = io.BytesIO()
    save(Encoder(), file)
    text = file.getvalue()[8:3000].decode("latin-1")
    assert '"layers.0.weight"' in text
    assert '"scale"' in text


def test_training_that_goes_on_from_whole_objects_gives_the_same_bits():
    def steps(model, optimizer, schedule, n):
        for _ in range(n):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()
            schedule.step()

    x = ex.randn(6, 4)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    steps(model, optimizer, schedule, 3)
    back = there_and_back({"model": model, "optimizer": optimizer, "schedule": schedule, "epoch": 3})
    assert back["schedule"].optimizer is back["optimizer"]
    assert back["optimizer"].param_groups[0]["params"][0] is back["model"][0].weight
    steps(model, optimizer, schedule, 4)
    steps(back["model"], back["optimizer"], back["schedule"], 4)
    for name, value in model.state_dict().items():
        assert value.equal(back["model"].state_dict()[name]), name
    assert back["schedule"].get_last_lr() == schedule.get_last_lr()


def test_data_sets_come_back():
    data = TensorDataset(ex.arange(6.0), ex.arange(6))
    first, second = random_split(data, [4, 2], generator=ex.Generator().manual_seed(0))
    back_first, back_second, squares = there_and_back((first, second, Squares(5)))
    assert [x.item() for x, _ in back_first] == [x.item() for x, _ in first]
    assert back_first.dataset is back_second.dataset
    assert isinstance(back_first, Subset)
    assert [squares[i] for i in range(len(squares))] == [0, 1, 4, 9, 16]
    assert squares.cache[3].item() == 9


def test_a_loader_comes_back_with_its_generator():
    loader = DataLoader(Squares(6), batch_size=2, shuffle=True, generator=ex.Generator().manual_seed(1))
    back = there_and_back(loader)
    assert back.generator is back.sampler.generator
    assert [b.tolist() for b in back] == [b.tolist() for b in loader]


def test_dataclasses_and_namedtuples_come_back_without_being_made_anew():
    config = Config(3)
    config.width = 7
    assert there_and_back(config).width == 7
    assert there_and_back(Frozen(1, (2, [3]))) == Frozen(1, (2, [3]))
    point, sized = there_and_back([Point(1, ex.ones(2)), Sized(3, ["a"])])
    assert type(point) is Point
    assert point.y.tolist() == [1.0, 1.0]
    assert sized == Sized(3, ["a"])
    assert type(sized) is Sized


def test_a_chain_of_objects_may_be_long():
    first = Config(0)
    last = first
    for i in range(1, 5000):
        last.names = [Config(-i)]
        last = last.names[0]
    back = there_and_back(first)
    for _ in range(4999):
        back = back.names[0]
    assert back.width == -4999


def test_distributions_generators_and_packed_sequences_come_back():
    packed = nn.utils.rnn.pack_sequence([ex.ones(3), ex.ones(2)])
    normal, generator, sequence = there_and_back(
        [ex.distributions.Normal(1.0, 2.0), ex.Generator().manual_seed(5), packed]
    )
    assert normal.log_prob(ex.tensor(1.0)).equal(ex.distributions.Normal(1.0, 2.0).log_prob(ex.tensor(1.0)))
    assert ex.rand(3, generator=generator).equal(ex.rand(3, generator=ex.Generator().manual_seed(5)))
    assert type(sequence) is type(packed)
    assert sequence.data.equal(packed.data)


def test_ragged_tensors_inside_of_objects_come_back():
    data = Squares(2)
    data.rows = ex.ragged([[1.0, 2.0], [3.0]])
    assert there_and_back(data).rows.tolist() == [[1.0, 2.0], [3.0]]


def test_a_lambda_a_method_and_a_local_class_are_refused_with_their_path():
    model = Model()
    model.encoder.act = lambda x: x
    with pytest.raises(UnsupportedError, match=r"save: model\.encoder\.act is a lambda"):
        save(model, io.BytesIO())
    model = nn.Sequential(nn.Linear(1, 1))
    model[0].run = model.forward
    with pytest.raises(UnsupportedError, match=r"save: model\[0\]\.run is the method Sequential\.forward"):
        save(model, io.BytesIO())

    class Local(nn.Module):
        pass

    with pytest.raises(UnsupportedError, match=r'obj\["m"\] is of type Local, which is defined inside a function'):
        save({"m": Local()}, io.BytesIO())


def test_hooks_are_refused_in_words_and_removed_ones_are_forgotten():
    model = Model()
    handle = model.encoder.register_forward_hook(lambda module, args, output: None)
    with pytest.raises(UnsupportedError, match=r"model\.encoder has hooks, which are code; remove them"):
        save(model, io.BytesIO())
    handle.remove()
    assert "_call_hooks" not in vars(there_and_back(model).encoder)


def test_a_compiled_module_is_saved_as_the_module_that_was_compiled():
    model = Encoder()
    back = there_and_back(ex.compile(model))
    assert type(back) is Encoder
    assert back(ex.ones(2, 4)).equal(model(ex.ones(2, 4)))


def test_copies_and_pickles_are_what_they_were():
    model = Model()
    index = ex.tensor([0, 3])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other(index).equal(model(index))
        assert other.head.weight is other.embedding.weight


def test_a_class_that_is_not_imported_any_more_says_to_import_it():
    file = io.BytesIO()
    save(Squares(2), file)
    kept = globals().pop("Squares")
    try:
        with pytest.raises(UnsupportedError, match=r"test_objects\.Squares.*which it does not have; import the module"):
            load(io.BytesIO(file.getvalue()))
    finally:
        globals()["Squares"] = kept
