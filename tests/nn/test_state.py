"""state_dict and load_state_dict."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError, ExtempoError


class Part(nn.Module):
    def __init__(self, rows: int = 2, columns: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(ex.zeros(rows, columns))
        self.register_parameter("bias", None)
        self.register_buffer("count", ex.tensor(0))
        self.register_buffer("scratch", ex.zeros(1), persistent=False)


class Whole(nn.Module):
    def __init__(self, rows: int = 2, columns: int = 3) -> None:
        super().__init__()
        self.a = Part(rows, columns)
        self.b = Part(rows, columns)


def filled(number: float, rows: int = 2, columns: int = 3) -> Whole:
    net = Whole(rows, columns)
    for p in net.parameters():
        nn.init.constant_(p, number)
    return net


def test_a_state_holds_parameters_and_persistent_buffers_and_shares_memory():
    net = Whole()
    state = net.state_dict()
    assert list(state) == ["a.weight", "a.count", "b.weight", "b.count"]
    assert not state["a.weight"].requires_grad
    assert type(state["a.weight"]) is ex.Tensor
    state["a.weight"].fill_(3.0)
    assert net.a.weight.tolist() == [[3.0] * 3] * 2
    assert net.state_dict(keep_vars=True)["a.weight"] is net.a.weight
    assert next(iter(net.state_dict(prefix="net."))) == "net.a.weight"
    held: dict[str, ex.Tensor] = {}
    assert net.state_dict(destination=held) is held
    assert len(held) == 4
    assert state._metadata["a"] == {"version": 1}


def test_loading_copies_values_and_keeps_objects():
    net, other = filled(0.0), filled(5.0)
    before = net.a.weight
    other.a.count.fill_(7)
    result = net.load_state_dict(other.state_dict())
    assert repr(result) == str(result) == "<All keys matched successfully>"
    assert net.a.weight is before
    assert before.tolist() == [[5.0] * 3] * 2
    assert net.a.count.item() == 7
    other.a.weight.data.fill_(1.0)
    assert before.tolist() == [[5.0] * 3] * 2
    assert before.requires_grad


def test_one_error_names_everything_that_does_not_match_and_nothing_is_loaded():
    net = filled(0.0)
    state = dict(filled(5.0).state_dict())
    del state["a.count"]
    state["c.weight"] = state["extra"] = ex.ones(1)
    state["b.weight"] = ex.ones(4, 3)
    state["b.count"] = "text"
    with pytest.raises(ExtempoError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    for part in ("Whole", '"a.count"', '"c.weight"', '"extra"', "size mismatch", "(4, 3)", "(2, 3)", '"b.count": str'):
        assert part in text
    assert net.a.weight.tolist() == [[0.0] * 3] * 2


def test_not_strict_returns_what_did_not_match_but_shapes_must():
    net = filled(0.0)
    state = dict(filled(5.0).state_dict())
    del state["a.count"]
    state["extra"] = ex.ones(1)
    missing, unexpected = net.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["a.count"], ["extra"])
    assert net.a.weight.tolist() == [[5.0] * 3] * 2
    state["b.weight"] = ex.ones(4, 3)
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict(state, strict=False)


def test_fit_loads_what_fits_across_shapes_and_says_what_it_did():
    net = filled(0.0, rows=3, columns=2)
    state = dict(filled(5.0, rows=2, columns=3).state_dict())
    state["b.weight"] = ex.ones(6)
    del state["b.count"]
    state["extra"] = ex.ones(1)
    report = net.load_state_dict(state, strict="fit")
    assert net.a.weight.tolist() == [[5.0, 5.0], [5.0, 5.0], [0.0, 0.0]]
    assert net.b.weight.tolist() == [[0.0, 0.0]] * 3
    assert report.loaded == ["a.count"]
    assert report.partly == {"a.weight": ((2, 3), (3, 2))}
    assert list(report.skipped) == ["b.weight"]
    assert report.missing_keys == ["b.count"]
    assert report.unexpected_keys == ["extra"]
    for part in ("loaded whole: 1", "a.weight (2, 3) -> (3, 2)", "b.weight", "not in the module: extra"):
        assert part in str(report)


def test_fit_equals_a_plain_load_where_all_matches():
    net, other = filled(0.0), filled(5.0)
    report = net.load_state_dict(other.state_dict(), strict="fit")
    assert report.loaded == list(other.state_dict())
    assert not any(report[1:])
    assert net.b.weight.tolist() == [[5.0] * 3] * 2


def test_assign_takes_over_tensors_and_keeps_what_is_trained():
    net, state = filled(0.0), filled(5.0).double().state_dict()
    net.a.weight.requires_grad_(False)
    net.load_state_dict(state, assign=True)
    assert net.a.weight.dtype is ex.float64
    assert not net.a.weight.requires_grad
    assert net.b.weight.requires_grad
    assert isinstance(net.a.weight, nn.Parameter)
    state["a.weight"].fill_(9.0)
    assert net.a.weight[0, 0].item() == 9.0
    assert [name for name, _ in net.named_parameters()] == ["a.weight", "b.weight"]


def test_assign_keeps_shared_parameters_shared():
    net = filled(0.0)
    net.b.weight = net.a.weight
    net.load_state_dict(filled(5.0).state_dict(), assign=True)
    assert net.b.weight is net.a.weight


def test_values_may_be_arrays_and_numbers():
    net = Part()
    net.load_state_dict({"weight": np.arange(6.0).reshape(2, 3), "count": 4})
    assert net.weight.dtype is ex.float32
    assert net.weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert net.count.item() == 4
    net.load_state_dict({"weight": np.ones((2, 3)), "count": np.array([3])})
    assert net.count.item() == 3


def test_wrong_arguments_are_refused_with_advice():
    net = Part()
    with pytest.raises(DtypeError, match=r"its \.state_dict\(\)"):
        net.load_state_dict(Part())
    with pytest.raises(DtypeError, match="expected a dict"):
        net.load_state_dict([1])
    with pytest.raises(DtypeError, match="'fit'"):
        net.load_state_dict({}, strict="fits")


def test_a_common_prefix_is_noticed():
    state = {f"module.{key}": value for key, value in Part().state_dict().items()}
    with pytest.raises(ExtempoError, match=r'every key begins with "module\."'):
        Part().load_state_dict(state)


class WithExtra(Part):
    extra = 3

    def get_extra_state(self):
        return {"extra": self.extra}

    def set_extra_state(self, state):
        self.extra = state["extra"]


def test_extra_state_travels_with_the_tensors():
    net, other = nn.Sequential(WithExtra()), nn.Sequential(WithExtra())
    net[0].extra = 8
    state = net.state_dict()
    assert state["0._extra_state"] == {"extra": 8}
    other.load_state_dict(state)
    assert other[0].extra == 8
    del state["0._extra_state"]
    with pytest.raises(ExtempoError, match="_extra_state"):
        other.load_state_dict(state)
    with pytest.raises(ExtempoError, match="Unexpected"):
        nn.Sequential(Part()).load_state_dict(net.state_dict())


def test_a_module_may_rename_keys_of_older_versions():
    class Newer(Part):
        _version = 2

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            if local_metadata.get("version", 1) < 2 and prefix + "w" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    net = nn.Sequential(Newer())
    state = {"0.w": ex.ones(2, 3), "0.count": ex.tensor(1)}
    net.load_state_dict(state)
    assert net[0].weight.tolist() == [[1.0] * 3] * 2
    assert list(state) == ["0.w", "0.count"]  # the caller's dict stays as it was
    assert net.state_dict()._metadata["0"] == {"version": 2}


def test_hooks_around_saving_and_loading():
    net, seen = Part(), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("save", prefix)))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(hooked=ex.ones(1)))
    state = net.state_dict()
    assert "hooked" in state

    def forgive(module, keys):
        seen.append(module.weight[0, 0].item())
        keys.unexpected_keys.clear()

    net.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: state.update(count=ex.tensor(6)))
    handle = net.register_load_state_dict_post_hook(forgive)
    net.load_state_dict({**state, "weight": ex.full((2, 3), 4.0)})
    assert seen == [("save", ""), 4.0]
    assert net.count.item() == 6
    handle.remove()
    with pytest.raises(ExtempoError, match="hooked"):
        net.load_state_dict(state)


def test_a_part_can_be_loaded_alone():
    net = Part()
    missing: list[str] = []
    net._load_from_state_dict({"x.weight": ex.ones(2, 3)}, "x.", {}, True, missing, [], [])
    assert net.weight.tolist() == [[1.0] * 3] * 2
    assert missing == ["x.count"]


def test_loading_is_noticed_by_a_backward_that_needs_the_old_values():
    net = filled(2.0)
    loss = (net.a.weight * net.a.weight).sum()
    net.load_state_dict(filled(5.0).state_dict())
    with pytest.raises(RuntimeError):
        loss.backward()


def test_a_pytorch_state_is_loaded_as_it_is():
    torch = pytest.importorskip("torch", reason="loads states that PyTorch made")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Conv2d(2, 3, 3))
    ours = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Conv2d(2, 3, 3))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for state in (theirs.state_dict(), theirs.bfloat16().state_dict(keep_vars=True)):
        ours.load_state_dict(state)
        for key, value in ours.state_dict().items():
            np.testing.assert_array_equal(value.numpy(), state[key].detach().to(torch.float32).numpy())
            assert value.dtype in (ex.float32, ex.int64)
    changed = OrderedDict(theirs.state_dict())
    changed["0.weight"] = torch.zeros(9, 9)
    with pytest.raises(ExtempoError, match=r"\(9, 9\)"):
        ours.load_state_dict(changed)
