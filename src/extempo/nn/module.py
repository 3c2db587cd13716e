"""Module: parameters, buffers and submodules by name, and a `forward`.

What is set as an attribute and is a Parameter, a Buffer or a Module registers itself; everything else is a plain
attribute. A call without hooks is one check and `forward`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import Any, NoReturn, Self, TypeVar

from .. import ops
from ..core.absent_names import KeywordSuggestions
from ..core.context import no_grad
from ..core.device import device as Device
from ..core.device import require_cpu
from ..core.source_location import user_stacklevel
from ..core.tensor import Tensor, TensorLike
from ..core.types import as_dtype, bfloat16, dtype, float16, float32, float64
from ..core.wording import FORGOTTEN_RETURN, counted
from ..errors import DtypeError, UnsupportedError
from .hook_tables import HookTables
from .hooks import HookMethods, call_with_hooks
from .parameter import Buffer, Parameter
from .state import StateMethods
from .tables import TABLES, Table, note_change, replace_table, without_mirrors

# Shown every call of a cell, as (cell, args, kwargs), while a batch runs (`backends.entry_points.CALL_CELL`);
# NotImplemented: the cell itself is to run.
call_cell: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] | None = None


RUNNING_BATCHES: list[Any] = []  # in all threads; where there is none a call of a module costs nothing more


class Module(HookMethods, HookTables, StateMethods, KeywordSuggestions):
    """The base of all layers and models: subclass it, set parts as attributes in `__init__`, define `forward`.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = nn.Parameter(ex.ones(2))
    ...
    ...     def forward(self, x):
    ...         return x * self.scale
    >>> net = Net()
    >>> [name for name, parameter in net.named_parameters()]
    ['scale']
    >>> net(ex.tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    training: bool
    _computes_tensor = False  # whether, among parametrizations, a call of it gives a tensor of the owner
    _is_cell = False  # whether a call does nothing but compute its result, so that many samples' calls can run as one
    _is_marked_cell = False  # whether that is what `ex.cell` was told
    _needs_proof = False  # whether that is to be found out first: `batching.automatic_cells`
    # Of PyTorch's classes, for annotations and for programs that ask
    T_destination = TypeVar("T_destination", bound=dict[str, Any])
    call_super_init = dump_patches = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__mro__:
            if "_is_cell" in vars(base):
                return
            if "forward" in vars(base):  # another one than that which is known to be pure
                cls._is_cell = cls._needs_proof = not cls.__module__.startswith("extempo.")
                cls._is_marked_cell = False
                return

    def __init__(self) -> None:
        self.__dict__.update(training=True, _non_persistent_buffers_set=set())
        self.__dict__.update({name: Table(self) for name in TABLES})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call of the module computes. Every subclass defines it."""
        raise UnsupportedError(f'{type(self).__name__} is missing the required "forward" function: define it')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._call_hooks:
            return call_with_hooks(self, self._call_hooks, args, kwargs)
        if self._is_cell and RUNNING_BATCHES and call_cell is not None:
            result = call_cell(self, args, kwargs)
            if result is not NotImplemented:
                return result
        try:
            return self.forward(*args, **kwargs)
        except (AttributeError, TypeError):
            if args and not isinstance(args[0], TensorLike) and type(self).__module__.startswith("extempo."):
                self._refuse_input(args[0])
            raise

    def _refuse_input(self, given: Any) -> None:
        """Say it in words if a call of this layer failed for an input that is plainly no tensor."""
        name = type(self).__name__
        if given is None:
            raise DtypeError(f"{name}: {FORGOTTEN_RETURN}") from None
        if type(given).__module__ == "numpy":
            raise DtypeError(f"{name}: expected a tensor, got a NumPy array; pass ex.from_numpy(x)") from None

    # ---- registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None for one that this module could have (a bias that is switched off).

        >>> module = nn.Module()
        >>> module.register_parameter("bias", None)
        >>> print(module.bias, list(module.parameters()))
        None []
        """
        self._check_new_name("register_parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise DtypeError(
                f"register_parameter: {name!r} must be an nn.Parameter or None, got {type(param).__name__}; "
                "write nn.Parameter(tensor)"
            )
        if param is not None and not param.is_leaf:
            raise DtypeError(
                f"register_parameter: {name!r} was computed by recorded ops, so it could not be trained; "
                "compute it in forward, or pass nn.Parameter(tensor.detach())"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained; `persistent=False` keeps it out of the `state_dict`.

        >>> module = nn.Module()
        >>> module.register_buffer("mean", ex.zeros(2))
        >>> module.mean
        tensor([0., 0.])
        """
        self._check_new_name("register_buffer", name, "_buffers")
        if isinstance(tensor, TensorLike):
            raise DtypeError(
                f"register_buffer: {name!r} is a ragged tensor; register x.values() and x.offsets(), and put them "
                "together with ex.ragged_from_values(values, offsets=offsets)"
            )
        if tensor is not None and not isinstance(tensor, Tensor):
            raise DtypeError(f"register_buffer: {name!r} must be a tensor or None, got {type(tensor).__name__}")
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name: `add_module`."""
        self.add_module(name, module)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name that attribute syntax cannot spell, or that is computed."""
        if module is not None and not isinstance(module, Module):
            raise DtypeError(f"add_module: {name!r} must be a Module or None, got {type(module).__name__}")
        self._check_new_name("add_module", name, "_modules")
        self._modules[name] = module

    def _check_new_name(self, op: str, name: str, table: str) -> None:
        if table not in self.__dict__:
            raise AttributeError(f"{op}: call super().__init__() in {type(self).__name__}.__init__ first")
        if not isinstance(name, str):
            raise DtypeError(f"{op}: a name is a str, got {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(f"{op}: a name is not empty and has no dot, got {name!r}")
        if name not in self.__dict__[table] and hasattr(self, name):
            raise KeyError(f"{op}: {type(self).__name__} has an attribute {name!r} already; delete it first")

    # ---- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        note_change(self)
        if isinstance(value, Parameter):
            self._move_to("_parameters", name)
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._move_to("_modules", name)
            self._modules[name] = value
        elif isinstance(value, Buffer):
            self._move_to("_buffers", name)
            self.register_buffer(name, value, value.persistent)
        else:
            for table in TABLES:
                entries = self.__dict__.get(table)
                if entries is not None and name in entries:
                    self._check_kept(table, name, value)
                    entries[name] = value
                    return
            computed = self._parametrization(name)
            if computed is not None:
                computed.right_inverse(value)
            elif name in TABLES:
                replace_table(self, name, value)
            else:
                object.__setattr__(self, name, value)

    def _move_to(self, table: str, name: str) -> None:
        """Make room for `name` in one table by taking it out of the others and of the plain attributes."""
        if table not in self.__dict__:
            raise AttributeError(
                f"{name}: parameters, buffers and modules can be assigned after Module.__init__; "
                f"call super().__init__() in {type(self).__name__}.__init__ first"
            )
        for other in TABLES:
            if other != table and name in self.__dict__[other]:
                del self.__dict__[other][name]
        if name not in self.__dict__[table]:
            self.__dict__.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _check_kept(self, table: str, name: str, value: Any) -> None:
        """A registered name keeps its kind: it can become None, and a buffer any tensor."""
        if value is None or (table == "_buffers" and isinstance(value, Tensor)):
            return
        kind = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}[table]
        wanted = {"_parameters": "an nn.Parameter", "_buffers": "a tensor", "_modules": "a Module"}[table]
        raise DtypeError(
            f"cannot assign {type(value).__name__} as {kind} {name!r}: expected {wanted} or None; "
            f"`del module.{name}` first to make it a plain attribute"
        )

    def __delattr__(self, name: str) -> None:
        note_change(self)
        for table in TABLES:
            if name in self.__dict__.get(table, ()):
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __getattr__(self, name: str) -> Any:
        # Reached when the name is nowhere: entries of tables are in __dict__, those of plain dicts in their place not.
        for table in TABLES:
            entries = self.__dict__.get(table)
            if entries is not None and type(entries) is not Table:
                self.__dict__[table] = entries = Table(self, entries)
            if entries is not None and name in entries:
                return entries[name]
        computed = self._parametrization(name)
        if computed is not None:
            return computed()
        hint = "" if "_parameters" in self.__dict__ else "; was super().__init__() called?"
        if name == "compile":
            hint = "; write model = ex.compile(model)"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def _parametrization(self, name: str) -> Any:
        """What computes the tensor of that name (`nn.utils.parametrize`), or None."""
        parametrizations = self.__dict__.get("_modules", {}).get("parametrizations")
        found = None if parametrizations is None else parametrizations._modules.get(name)
        return found if found is not None and found._computes_tensor else None

    def __dir__(self) -> list[str]:
        return sorted(name for name in object.__dir__(self) if not name[:1].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        return without_mirrors(self.__dict__, TABLES)

    def __setstate__(self, state: dict[str, Any]) -> None:
        note_change(self)
        self.__dict__.update(state)
        for table in TABLES:
            self.__dict__[table] = Table(self, state.get(table))

    # ---- parts by name

    def get_submodule(self, target: str) -> Module:
        """The submodule with a dotted name; the module itself for "".

        >>> net = nn.Sequential(nn.Sequential(nn.Identity()))
        >>> net.get_submodule("0.0")
        Identity()
        """
        found: Any = self
        for name in target.split(".") if target else ():
            inner = found._modules.get(name)
            if not isinstance(inner, Module):
                there = ", ".join(found._modules) or "none"
                raise AttributeError(
                    f"get_submodule: {type(found).__name__} has no submodule {name!r} of {target!r}; it has: {there}"
                )
            found = inner
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in place of the one with a dotted name; strict: there must be one.

        >>> net = nn.Sequential(nn.Sequential(nn.Identity()))
        >>> net.set_submodule("0.0", nn.Sequential())
        >>> net.get_submodule("0.0")
        Sequential()
        """
        if not isinstance(module, Module):
            raise DtypeError(f"set_submodule: expected a Module, got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        if not name:
            raise KeyError(f"set_submodule: expected the name of a submodule, got {target!r}")
        parent = self.get_submodule(path)
        if strict and name not in parent._modules:
            raise AttributeError(f"set_submodule: there is no {target!r} to replace; leave strict=True out to add it")
        setattr(parent, name, module)

    def _get_from(self, op: str, table: str, target: str) -> Tensor:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = owner.__dict__[table].get(name)
        if found is None:
            there = ", ".join(owner.__dict__[table]) or "none"
            raise AttributeError(f"{op}: {type(owner).__name__} has no {name!r} of {target!r}; it has: {there}")
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with a dotted name."""
        return self._get_from("get_parameter", "_parameters", target)  # type: ignore[return-value] # that table has only those

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with a dotted name."""
        return self._get_from("get_buffer", "_buffers", target)

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with dotted names; each once unless `remove_duplicate=False`.

        >>> [name for name, module in nn.Sequential(nn.Identity(), nn.Identity()).named_modules()]
        ['', '0', '1']
        """
        memo = set() if memo is None else memo
        if remove_duplicate:
            if self in memo:
                return
            memo.add(self)
        yield prefix, self
        for name, child in list(self._modules.items()):
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        memo: set[int] = set()
        waiting: list[Module] = [self]  # the next one last
        while waiting:
            module = waiting.pop()
            if remove_duplicate:
                if id(module) in memo:
                    continue
                memo.add(id(module))
            yield module
            waiting += [child for child in reversed(module._modules.values()) if child is not None]

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The submodules directly below, with names; each once."""
        memo = set()
        for name, child in list(self._modules.items()):
            if child is not None and child not in memo:
                memo.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """The submodules directly below."""
        for _, child in self.named_children():
            yield child

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        memo: set[int] = set()
        owners = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, owner in owners:
            for name, member in list(get_members_fn(owner)):
                if member is None or id(member) in memo:
                    continue
                if remove_duplicate:
                    memo.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with dotted names; a shared one once, unless `remove_duplicate=False`.

        >>> [name for name, p in nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1, bias=False)).named_parameters()]
        ['0.weight', '0.bias', '1.weight']
        """
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, with `recurse`, of all below it: what an optimizer trains."""
        memo: set[int] = set()
        for owner in self.modules() if recurse else (self,):
            for parameter in list(owner._parameters.values()):
                if parameter is not None and id(parameter) not in memo:
                    memo.add(id(parameter))
                    yield parameter
        if not memo and recurse:
            self._warn_of_hidden_parameters()

    def _warn_of_hidden_parameters(self) -> None:
        """A module without parameters that has some in a plain list is a common mistake, and seldom meant."""
        from .hidden_layers import hidden_parameters

        found = next(hidden_parameters(self), None)
        if found is not None:
            name, advice, _ = found
            text = f"parameters: {type(self).__name__} has none of its own, and does not see {name}; {advice}"
            warnings.warn(text, stacklevel=user_stacklevel())

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with dotted names."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, with `recurse`, of all below it."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # ---- for the whole tree

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn(module)` for every module below and then for this one, e.g. to initialise weights.

        >>> net = nn.Sequential(nn.Linear(2, 1, bias=False))
        >>> _ = net.apply(lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Linear) else None)
        >>> net[0].weight.tolist()
        [[1.0, 1.0]]
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch to training behaviour (dropout, batch statistics), or out of it with `mode=False`."""
        if not isinstance(mode, bool):
            raise DtypeError(f"train: expected True or False, got {type(mode).__name__}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """Switch to the behaviour at use: no dropout, running statistics."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether gradients are collected for the parameters: False freezes them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the parameters, or with `set_to_none=False` fill them with zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = ops.zeros_like(parameter.grad)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Put `fn(tensor)` in place of every parameter's values and every buffer; parameters stay the same objects."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                gradient = parameter.grad
                parameter.data = fn(parameter.data)
                if gradient is not None:
                    parameter.grad = None
                    parameter.grad = fn(gradient).detach()
            for name, buffer in list(self._buffers.items()):
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating parameters and buffers: `to(dtype)`, `to(device, dtype)`, `to(tensor)`, or `memory_format=`.

        >>> nn.Linear(2, 2).to(ex.float64).weight.dtype
        extempo.float64
        """
        wanted, order = _read_to(args, kwargs)

        def convert(t: Tensor) -> Tensor:
            if wanted is not None and t.dtype.is_floating_point:
                t = t.to(wanted)
            return t.to(memory_format=order) if order is not None and t.ndim in (4, 5) else t

        return self._apply(convert)

    def _to_floating(self, d: dtype) -> Self:
        return self._apply(lambda t: t.to(d) if t.dtype.is_floating_point else t)

    def float(self) -> Self:
        """Floating parameters and buffers as float32."""
        return self._to_floating(float32)

    def double(self) -> Self:
        """Floating parameters and buffers as float64."""
        return self._to_floating(float64)

    def half(self) -> Self:
        """Floating parameters and buffers as float16."""
        return self._to_floating(float16)

    def bfloat16(self) -> Self:
        """Floating parameters and buffers as bfloat16."""
        return self._to_floating(bfloat16)

    def type(self, dst_type: Any) -> Self:
        """All parameters and buffers in one dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self) -> Self:
        """The module itself: it is on the CPU already."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """Not there: Extempo runs on the CPU."""
        self._refuse_device("cuda")

    def xpu(self, device: Any = None) -> Self:
        """Not there: Extempo runs on the CPU."""
        self._refuse_device("xpu")

    def ipu(self, device: Any = None) -> Self:
        """Not there: Extempo runs on the CPU."""
        self._refuse_device("ipu")

    def mtia(self, device: Any = None) -> Self:
        """Not there: Extempo runs on the CPU."""
        self._refuse_device("mtia")

    def _refuse_device(self, name: str) -> NoReturn:
        raise UnsupportedError(
            f"{name}: Extempo runs on the CPU, where small and changing models are fastest; drop .{name}()"
        )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Not there: `ex.compile` makes a compiled module that shares everything with this one."""
        raise UnsupportedError(
            "compile: a module is not compiled in place; write `model = ex.compile(model)`, which shares its weights"
        )

    def to_empty(self, *, device: Any = "cpu", recurse: bool = True) -> Self:
        """New memory with arbitrary values for all parameters and buffers."""
        require_cpu(device, "to_empty")
        return self._apply(ops.empty_like, recurse)

    def share_memory(self) -> Self:
        """Move parameters and buffers into memory that processes share, as far as tensors can do that."""
        return self._apply(lambda t: t.share_memory_())

    # ---- text

    def extra_repr(self) -> str:
        """What stands between the parentheses in the module's text. Override it."""
        return ""

    def _get_name(self) -> str:
        return self.__class__.__name__

    def __repr__(self) -> str:
        extra = [line for line in self.extra_repr().split("\n") if line]
        parts = [f"({name}): " + _indented(repr(child)) for name, child in self._modules.items()]
        if len(extra) == 1 and not parts:
            return f"{self._get_name()}({extra[0]})"
        lines = extra + parts
        return f"{self._get_name()}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"

    def _repr_html_(self) -> str:
        """For Jupyter: the parts, and how many numbers there are to learn."""
        n_parameters = sum(p.numel() for p in self.parameters())
        return f"<pre>{escape(repr(self))}</pre><p>{counted(n_parameters, 'parameter')}</p>"


CODE_OF_CALL = Module.__call__.__code__  # frames of it are calls of modules, also while a profile has exchanged it


def _indented(text: str) -> str:
    """A part's text with all lines but the first moved in."""
    return re.sub(r"\n", "\n  ", text)


def _read_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dtype | None, Any]:
    """(dtype or None, memory format or None) from the arguments of `Module.to`."""
    named = dict(kwargs)
    unknown = named.keys() - {"tensor", "device", "dtype", "non_blocking", "memory_format"}
    if unknown:
        raise DtypeError(f"to: unknown arguments {', '.join(sorted(unknown))}")
    first = args[0] if args else None
    if isinstance(first, Tensor):
        names = ["tensor", "non_blocking"]
    elif first is None or isinstance(first, str | Device):
        names = ["device", "dtype", "non_blocking"]
    else:
        names = ["dtype", "non_blocking"]
    if len(args) > len(names) or named.keys() & set(names[: len(args)]):
        raise DtypeError(f"to: expected (dtype), (device, dtype) or (tensor), got {args} and {kwargs}")
    named |= dict(zip(names, args, strict=False))
    require_cpu(named.get("device"), "to")
    given = named["tensor"].dtype if named.get("tensor") is not None else named.get("dtype")
    wanted = None if given is None else as_dtype(given)
    if wanted is not None and not wanted.is_floating_point:
        raise DtypeError(
            f"to: a module's parameters are floating, so they cannot become {wanted}; use module.type(...)"
        )
    return wanted, named.get("memory_format")
