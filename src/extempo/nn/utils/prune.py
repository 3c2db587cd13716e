"""Pruning by masks: `weight` becomes `weight_orig * weight_mask`, computed before every forward.

`prune_units` of `nn.utils` makes layers smaller instead; a mask only makes elements zero. Names, masks and the keys of
the state are PyTorch's.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from ... import ops
from ...core.absent_names import explain_absent
from ...core.tensor import Tensor
from ...errors import ArgumentError, DtypeError, IndexRangeError, ShapeError
from ..module import Module
from .convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


# ---- methods


class BasePruningMethod(abc.ABC):
    """A way to choose what is pruned: subclass it, say its PRUNING_TYPE, and define `compute_mask`.

    >>> class Negative(nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t >= 0)
    >>> layer = nn.Linear(2, 1)
    >>> method = Negative.apply(layer, "weight")
    >>> bool((layer.weight >= 0).all())
    True
    """

    PRUNING_TYPE: ClassVar[str] = "unstructured"  # or "structured", of whole channels of `dim`, or "global"
    _tensor_name: str

    @abc.abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for importance scores `t`: 0 where it prunes, and wherever `default_mask` is 0."""

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Any) -> Tensor:
        """The pruned tensor of a module, from the original and the mask."""
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module from now on, after what has pruned it before; returns what does it now."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        value = getattr(module, name)
        scores = value if importance_scores is None else importance_scores
        if scores.shape != value.shape:
            raise ShapeError(
                f"prune: importance_scores must have the shape of {name}, {tuple(value.shape)}, got "
                f"{tuple(scores.shape)}"
            )
        before = _find(module, name)
        if before is None:
            mask = method.compute_mask(scores, ops.ones_like(value))
            original = module._parameters[name]
            delattr(module, name)
            module.register_parameter(name + "_orig", original)
        else:
            key, old = before
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            mask = container.compute_mask_by(method, scores, getattr(module, name + "_mask").detach().clone())
            container.add_pruning_method(method)
            method = container
            del module._own_call_hooks().forward_pre[key]
        module.register_buffer(name + "_mask", mask.detach())
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor pruned once, without a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise ShapeError(
                f"prune: importance_scores must have the shape of t, {tuple(t.shape)}, got {tuple(scores.shape)}"
            )
        return t * self.compute_mask(scores, ops.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned tensor a parameter again, with its present values. Zeros stay zero until they are trained."""
        name = self._tensor_name
        pruned = self.apply_mask(module).detach()
        original = module._parameters[name + "_orig"]
        for attribute in (name, name + "_orig", name + "_mask"):
            delattr(module, attribute)
        original.data = pruned  # the same object as before, so that optimizers still hold it
        setattr(module, name, original)


def _prunings(module: Any) -> Iterator[tuple[int, BasePruningMethod]]:
    hooks = module._call_hooks
    for key, (hook, _) in list(hooks.forward_pre.items()) if hooks is not None else ():
        if isinstance(hook, BasePruningMethod):
            yield key, hook


def _find(module: Any, name: str) -> tuple[int, BasePruningMethod] | None:
    return next(((key, hook) for key, hook in _prunings(module) if hook._tensor_name == name), None)


class PruningContainer(BasePruningMethod):
    """Several methods that prune one tensor, one after the other; each chooses among what the others left.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 4), "weight", amount=4)
    >>> layer = nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
    >>> int(layer.weight_mask.sum()) <= 12
    True
    """

    PRUNING_TYPE = "combination"

    def __init__(self, *args: Any) -> None:
        methods = args[0] if len(args) == 1 and not isinstance(args[0], BasePruningMethod) else args
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            if not self._pruning_methods and isinstance(method, BasePruningMethod):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Append a method that prunes the same tensor."""
        if not isinstance(method, BasePruningMethod):
            raise DtypeError(f"PruningContainer: expected a BasePruningMethod, got {type(method).__name__}")
        if method._tensor_name != self._tensor_name:
            raise ArgumentError(
                f"PruningContainer: it prunes {self._tensor_name!r}, the method {method._tensor_name!r}; use another"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` with what the last method prunes among what it keeps."""
        return self.compute_mask_by(self._pruning_methods[-1], t, default_mask)

    def compute_mask_by(self, method: BasePruningMethod, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` with what a method prunes among what it keeps."""
        kept = self._kept(method, t, default_mask)
        mask = default_mask.clone().to(t.dtype)
        mask[kept] = method.compute_mask(t[kept], default_mask[kept]).to(t.dtype)
        return mask

    @staticmethod
    def _kept(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Any:
        """Where the method may look: elements that are there, or channels that have one."""
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE == "global":
            return (slice(None),) * t.ndim
        if method.PRUNING_TYPE != "structured":
            raise ArgumentError(f"PruningContainer: unknown PRUNING_TYPE {method.PRUNING_TYPE!r}")
        dim = _dimension(t, method.dim)  # type: ignore[attr-defined] # a structured method has one
        sums = mask.sum(dim=[d for d in range(t.ndim) if d != dim])
        return tuple(sums != 0 if d == dim else slice(None) for d in range(t.ndim))


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask: for masks that are set by hand or loaded.

    >>> method = nn.utils.prune.Identity.apply(nn.Linear(2, 2), "bias")
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _ByAmount(BasePruningMethod):
    """Prunes a number of elements or channels, or a fraction of them."""

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, int | float):
            raise DtypeError(f"{type(self).__name__}: amount must be an int or a float, got {type(amount).__name__}")
        if amount < 0 or (isinstance(amount, float) and amount > 1.0):
            raise ArgumentError(
                f"{type(self).__name__}: amount must be a number of elements or a fraction between 0.0 and 1.0, "
                f"got {amount}"
            )
        self.amount = amount

    def _count(self, n: int) -> int:
        """How many of `n` are pruned."""
        if isinstance(self.amount, float):
            return round(self.amount * n)
        if self.amount > n:
            raise ArgumentError(f"{type(self).__name__}: amount={self.amount} is more than the {n} there are")
        return self.amount


class RandomUnstructured(_ByAmount):
    """Prunes elements at random.

    >>> pruned = nn.utils.prune.RandomUnstructured(amount=0.5).prune(ex.ones(4))
    >>> int((pruned == 0).sum())
    2
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_least(default_mask, ops.rand_like(t), self._count(t.numel()))


class L1Unstructured(_ByAmount):
    """Prunes the elements of least absolute value.

    >>> nn.utils.prune.L1Unstructured(amount=2).prune(ex.tensor([1.0, -4.0, 2.0, 0.5]))
    tensor([ 0., -4.,  2.,  0.])
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_least(default_mask, t.detach().abs(), self._count(t.numel()))


def _without_least(mask: Tensor, scores: Tensor, count: int) -> Tensor:
    if count == 0:
        return mask.clone()
    least = scores.reshape(-1).topk(count, largest=False).indices
    return mask.reshape(-1).index_fill(0, least, 0).reshape(mask.shape)


class _Structured(_ByAmount):
    """Prunes whole channels of a dimension: those of least `_scores`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim < 2:
            raise ShapeError(
                f"{type(self).__name__}: channels need 2 or more dimensions, got shape {tuple(t.shape)}; "
                "prune a vector with l1_unstructured"
            )
        dim = _dimension(t, self.dim)
        count = self._count(t.shape[dim])
        if count == 0:
            return default_mask
        kept = self._scores(t.detach(), dim).topk(t.shape[dim] - count).indices
        mask = ops.zeros_like(t.detach()).index_fill(dim, kept, 1)
        return mask * default_mask.to(mask.dtype)


class RandomStructured(_Structured):
    """Prunes channels at random.

    >>> pruned = nn.utils.prune.RandomStructured(amount=1, dim=0).prune(ex.ones(3, 2))
    >>> int((pruned.sum(1) == 0).sum())
    1
    """

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        return ops.rand(t.shape[dim])


class LnStructured(_Structured):
    """Prunes the channels of least norm of order n.

    >>> nn.utils.prune.LnStructured(amount=1, n=2, dim=0).prune(ex.tensor([[1.0, 1.0], [2.0, 2.0]]))
    tensor([[0., 0.],
            [2., 2.]])
    """

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        return ops.norm(t, p=self.n, dim=tuple(d for d in range(t.ndim) if d != dim))


def _dimension(t: Tensor, dim: int) -> int:
    if not -t.ndim <= dim < t.ndim:
        raise IndexRangeError(f"prune: dim {dim} is out of range for a tensor of shape {tuple(t.shape)}")
    return dim % t.ndim


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given.

    >>> nn.utils.prune.CustomFromMask(ex.tensor([1, 0, 1])).prune(ex.tensor([5.0, 6.0, 7.0]))
    tensor([5., 0., 7.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise ShapeError(
                f"custom_from_mask: the tensor has shape {tuple(default_mask.shape)}, the mask {tuple(self.mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


# ---- functions


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones.

    >>> sorted(nn.utils.prune.identity(nn.Linear(2, 2), "bias").state_dict())
    ['bias_mask', 'bias_orig', 'weight']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune elements at random: `amount` is their number, or a fraction.

    >>> layer = nn.utils.prune.random_unstructured(nn.Linear(2, 3), "weight", amount=1)
    >>> layer.weight_mask.sum()
    tensor(5.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Tensor | None = None) -> Any:
    """Prune the elements of least absolute value, or of least importance scores.

    >>> layer = nn.Linear(2, 2)
    >>> layer.weight = nn.Parameter(ex.tensor([[1.0, -4.0], [2.0, -0.5]]))
    >>> nn.utils.prune.l1_unstructured(layer, "weight", amount=0.5).weight
    tensor([[ 0., -4.],
            [ 2., -0.]], grad_fn=<MulBackward>)
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune channels of a dimension at random.

    >>> layer = nn.utils.prune.random_structured(nn.Linear(2, 3), "weight", amount=1, dim=0)
    >>> int((layer.weight_mask.sum(1) == 0).sum())
    1
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: float | str, dim: int, importance_scores: Tensor | None = None
) -> Any:
    """Prune the channels of a dimension whose norm of order n is least.

    >>> layer = nn.Linear(2, 2)
    >>> layer.weight = nn.Parameter(ex.tensor([[1.0, 1.0], [2.0, 2.0]]))
    >>> nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=0).weight_mask
    tensor([[0., 0.],
            [1., 1.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune by a mask: zero where it is.

    >>> layer = nn.utils.prune.custom_from_mask(nn.Linear(2, 2), "bias", ex.tensor([1, 0]))
    >>> layer.bias[1].item() == 0.0
    True
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune elements of several parameters, chosen as if these were one vector.

    >>> a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> pairs = [(a, "weight"), (b, "weight")]
    >>> nn.utils.prune.global_unstructured(pairs, nn.utils.prune.L1Unstructured, amount=0.5)
    >>> a.weight_mask.sum() + b.weight_mask.sum()
    tensor(4.)
    """
    pairs = list(parameters)
    scores = dict(importance_scores or {})
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise DtypeError(f"global_unstructured: {pruning_method.__name__} is {method.PRUNING_TYPE}, not unstructured")
    values = [getattr(module, name).detach() for module, name in pairs]
    masks = [
        getattr(module, name + "_mask", ops.ones_like(value))
        for (module, name), value in zip(pairs, values, strict=True)
    ]
    chosen = [scores.get(pair, value) for pair, value in zip(pairs, values, strict=True)]
    mask = PruningContainer().compute_mask_by(method, parameters_to_vector(chosen), parameters_to_vector(masks))
    pieces = mask.split([value.numel() for value in values])
    for (module, name), value, piece in zip(pairs, values, pieces, strict=True):
        custom_from_mask(module, name, piece.reshape(value.shape))


def remove(module: Any, name: str) -> Any:
    """Make a pruned tensor a parameter again, with its present values.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=2)
    >>> sorted(nn.utils.prune.remove(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    found = _find(module, name)
    if found is None:
        raise ArgumentError(f"prune.remove: {name!r} of this {type(module).__name__} is not pruned")
    key, hook = found
    hook.remove(module)
    del module._own_call_hooks().forward_pre[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a tensor of the module, or of one inside it, is pruned.

    >>> nn.utils.prune.is_pruned(nn.Sequential(nn.utils.prune.identity(nn.Linear(2, 2), "bias")))
    True
    """
    return any(True for part in module.modules() for _ in _prunings(part))


explain_absent(__name__)
