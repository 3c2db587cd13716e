"""PyTorch's modules, and which module of Extempo stands for which. Paths are without the leading `torch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# The modules of each package that programs import. What stands here exists, what does not is not found.
BELOW: Mapping[str, frozenset[str]] = {
    package: frozenset(names.split())
    for package, names in {
        "": "_C __config__ _custom_ops _dynamo _export _functorch _guards _higher_order_ops _inductor _jit_internal "
        "_library _ops _prims_common _subclasses _tensor _tensor_str _utils accelerator amp ao autograd backends "
        "classes compiler cpu cuda distributed distributions export fft func functional futures fx hub jit library "
        "linalg masked monitor mps multiprocessing nested nn onnx ops optim overrides package profiler quantization "
        "quasirandom random return_types serialization signal sparse special storage testing torch_version types utils "
        "version xpu",
        "_C": "_distributed_c10d _distributed_rpc _functorch _nn _onnx _profiler",
        "_dynamo": "_trace_wrapped_higher_order_op config eval_frame utils",
        "nn": "_reduction attention common_types functional grad init intrinsic modules parallel parameter qat "
        "quantizable quantized utils",
        "nn.attention": "bias flex_attention",
        "nn.modules": "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold "
        "instancenorm lazy linear loss module normalization padding pixelshuffle pooling rnn sparse transformer "
        "upsampling utils",
        "nn.utils": "_named_member_accessor clip_grad convert_parameters fusion init memory_format parametrizations "
        "parametrize prune rnn spectral_norm stateless weight_norm",
        "nn.parallel": "data_parallel distributed scatter_gather",
        "optim": "_adafactor _muon adadelta adagrad adam adamax adamw asgd lbfgs lr_scheduler nadam optimizer radam "
        "rmsprop rprop sgd sparse_adam swa_utils",
        "autograd": "anomaly_mode forward_ad function functional grad_mode gradcheck graph profiler profiler_util "
        "variable",
        "utils": "_contextlib _device _python_dispatch _pytree benchmark checkpoint cpp_extension data dlpack "
        "_foreach_utils flop_counter hooks mobile_optimizer model_zoo tensorboard weak",
        "utils.data": "_utils dataloader datapipes dataset distributed graph graph_settings sampler",
        "utils.data._utils": "collate fetch pin_memory worker",
        "utils.tensorboard": "summary writer",
        "amp": "autocast_mode grad_scaler",
        "backends": "cpu cuda cudnn mkl mkldnn mps openmp opt_einsum",
        "backends.cuda": "matmul",
        "cpu": "amp",
        "cuda": "amp comm graphs jiterator memory nccl nvtx profiler random streams tunable",
        "cuda.amp": "autocast_mode common grad_scaler",
        "distributions": "bernoulli beta binomial categorical cauchy chi2 constraint_registry constraints "
        "continuous_bernoulli dirichlet distribution exp_family exponential fishersnedecor gamma geometric gumbel "
        "half_cauchy half_normal independent inverse_gamma kl kumaraswamy laplace lkj_cholesky log_normal "
        "logistic_normal lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal "
        "negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli relaxed_categorical studentT "
        "transformed_distribution transforms uniform utils von_mises weibull wishart",
        "distributed": "_composable _functional_collectives _tensor algorithms autograd checkpoint constants "
        "device_mesh distributed_c10d elastic fsdp launcher nn optim pipelining rpc run tensor utils",
        "distributed.nn": "functional",
        "distributed.rpc": "api",
        "distributed.tensor": "placement_types",
        "functional": "F",
        "jit": "_script _state _trace annotations frontend",
        "fx": "_symbolic_trace experimental graph graph_module immutable_collections interpreter node "
        "operator_schemas passes proxy subgraph_rewriter tensor_type traceback",
        "linalg": "",
        "onnx": "symbolic_helper utils",
        "multiprocessing": "spawn",
        "nested": "",
        "signal": "windows",
    }.items()
}

# Where the contents of a module and of those below it are, if Extempo has none of that name.
HOMES: Mapping[str, str] = {
    "_tensor": "extempo",
    "amp": "extempo.amp",
    "autograd": "extempo.autograd",
    "cuda": "extempo.cuda",
    "distributions": "extempo.distributions",
    "distributions.multivariate_normal": "extempo.distributions.multivariate",
    "distributions.transforms": "extempo.distributions.transforms.base",
    "distributions.utils": "extempo.compat.torch_namespace.distribution_internals",
    "functional": "extempo",
    "functional.F": "extempo.nn.functional",
    "multiprocessing": "multiprocessing",
    "nn": "extempo.nn",
    "nn.modules.batchnorm": "extempo.nn.norm_layers",
    "nn.modules.conv": "extempo.nn.conv_layers",
    "nn.modules.instancenorm": "extempo.nn.norm_layers",
    "nn.modules.loss": "extempo.nn.losses",
    "nn.modules.module": "extempo.compat.torch_namespace.module_internals",
    "nn.utils": "extempo.nn.utils",
    "nn.utils.stateless": "extempo.func",
    "optim": "extempo.optim",
    "utils.checkpoint": "extempo.compat.torch_namespace.device_states",
    "utils.data": "extempo.data",
    "utils.data.dataloader": "extempo.compat.torch_namespace.data_iterators",
}

# What Extempo has no use for itself: modules beside this one. Of a refused module it is what libraries ask or do with
# it while they load.
OWN: Mapping[str, str] = {
    "_C": "internals",
    "_C._functorch": "functorch_internals",
    "_C._nn": "internals",
    "__config__": "config",
    "_dynamo": "compiler",
    "_higher_order_ops": "higher_order_ops",
    "_jit_internal": "jit",
    "_utils": "internals",
    "accelerator": "accelerator",
    "autograd.profiler": "profiler",
    "autograd.profiler_util": "profiler",
    "backends.cpu": "cpu_capability",
    "compiler": "compiler",
    "cuda.amp.common": "amp_common",
    "cuda.nvtx": "nvtx",
    "distributed": "distributed",
    "distributed.nn": "distributed_nn",
    "distributed.nn.functional": "distributed_nn",
    "distributed.autograd": "unavailable",
    "distributed._tensor": "placements",
    "distributed.rpc": "unavailable",
    "distributed.rpc.api": "unavailable",
    "distributed.tensor": "placements",
    "distributed.tensor.placement_types": "placements",
    "export": "export",
    "fx": "fx",
    "hub": "hub",
    "jit": "jit",
    "library": "library",
    "nn.common_types": "types",
    "nn.grad": "conv_gradients",
    "nn.modules.utils": "module_utils",
    "nn.utils._named_member_accessor": "named_members",
    "ops": "op_names",
    "nn.parallel": "parallel",
    "onnx": "onnx_symbols",
    "onnx.symbolic_helper": "onnx_symbols",
    "onnx.utils": "onnx_symbols",
    "overrides": "overrides",
    "profiler": "torch_profiler",
    "quasirandom": "quasirandom",
    "return_types": "return_types",
    "torch_version": "torch_version",
    "types": "types",
    "utils._contextlib": "contexts",
    "utils._foreach_utils": "foreach",
    "utils.flop_counter": "flop_counter",
    "utils.data._utils": "data_internals",
    "utils._pytree": "pytree",
    "utils.model_zoo": "model_zoo",
    "utils.tensorboard": "tensorboard",
    "utils.weak": "weak_keys",
}

# Modules beside this one that have what Extempo's module of that name has not.
BESIDE: Mapping[str, str] = {
    "": "toplevel",
    "autograd": "autograd_names",
    "autograd.graph": "autograd_names",
    "backends": "backend_names",
    "backends.cuda": "attention_switches",
    "backends.cudnn": "backend_names",
    "backends.mkl": "backend_names",
    "backends.mkldnn": "backend_names",
    "backends.mps": "backend_names",
    "backends.opt_einsum": "backend_names",
    "cpu": "cpu_streams",
    "cuda": "cuda_names",
    "cuda.amp": "cuda_names",
    "distributions.transforms": "distribution_internals",
    "multiprocessing": "sharing",
    "nn": "module_utils",
    "nn.attention": "attention_switches",
    "nn.functional": "overrides",
    "serialization": "serialization_names",
    "utils.data": "data_pipes",
}

_NOT_YET = "it is not part of this version of Extempo"
_ONE_PROCESS = "every process holds the model whole here; DistributedDataParallel shares the data"
_INTERNAL = "it is a part of PyTorch's own machinery, which Extempo does not have"
_NO_DEVICE = "Extempo runs on the CPU; guard the line with `if torch.cuda.is_available():`"
_NO_PIPES = "data pipes are not part of Extempo; write an IterableDataset"
_QUANTISED = "quantised tensors are not part of Extempo; use float16 or bfloat16 to save memory"
# Modules that can be imported, and whose contents say why they are refused when they are used.
REFUSED: Mapping[str, str] = {
    "_C._distributed_c10d": _ONE_PROCESS,
    "_C._distributed_rpc": _ONE_PROCESS,
    "_C._functorch": _INTERNAL,
    "_C._onnx": _NOT_YET,
    "_C._profiler": _INTERNAL,
    "_custom_ops": "use torch.library.custom_op",
    "_export": _NOT_YET,
    "_functorch": _INTERNAL,
    "_guards": _INTERNAL,
    "_higher_order_ops": _INTERNAL,
    "_inductor": "torch.compile has nothing to tune here",
    "_library": _INTERNAL,
    "_ops": _INTERNAL,
    "_prims_common": _INTERNAL,
    "_dynamo._trace_wrapped_higher_order_op": _INTERNAL,
    "_dynamo.eval_frame": _INTERNAL,
    "_dynamo.utils": _INTERNAL,
    "_subclasses": _INTERNAL,
    "_tensor_str": _INTERNAL,
    "ao": _QUANTISED,
    "classes": _INTERNAL,
    **{
        f"cuda.{name}": _NO_DEVICE for name in ["comm", "graphs", "jiterator", "nccl", "profiler", "streams", "tunable"]
    },
    **{
        f"distributed.{name}": _ONE_PROCESS
        for name in [
            "_composable",
            "_functional_collectives",
            "_tensor",
            "algorithms",
            "autograd",
            "checkpoint",
            "device_mesh",
            "elastic",
            "fsdp",
            "launcher",
            "optim",
            "pipelining",
            "rpc",
            "run",
            "tensor",
            "utils",
        ]
    },
    "fft": "Fourier transforms need complex numbers, which Extempo does not have; use numpy.fft on the data",
    "futures": "use concurrent.futures",
    "fx": "Extempo runs your Python as it is, without symbols to transform; ex.Graph.of(result) is the graph of a run",
    "library": "ops of your own are subclasses of torch.autograd.Function, or plain Python functions",
    "monitor": _NOT_YET,
    **{f"nn.{name}": _QUANTISED for name in ["intrinsic", "qat", "quantizable", "quantized"]},
    "nn.attention.bias": "use attn_mask= or is_causal= of scaled_dot_product_attention",
    "nn.attention.flex_attention": "use scaled_dot_product_attention with attn_mask=, or write the scores out",
    "package": "save weights with torch.save, and keep code as code",
    "profiler": "use torch.profiler.profile, which is ex.profile: its tables, flame graph and trace",
    "quantization": _QUANTISED,
    "sparse": "sparse tensors are not part of Extempo; use index_add, gather and scatter_add on dense ones",
    "storage": "a tensor's memory is its NumPy array, x.numpy()",
    "utils._device": _INTERNAL,
    "utils._python_dispatch": _INTERNAL,
    "utils.benchmark": "use timeit, or `extempo compare`",
    "utils.cpp_extension": "there is no C++ to extend; write the op in Python",
    **{f"utils.data.{name}": _NO_PIPES for name in ["datapipes", "graph", "graph_settings"]},
    "utils.flop_counter": "ex.inspect.summary counts multiplications",
    "utils.mobile_optimizer": _NOT_YET,
}


class Home(NamedTuple):
    """Where the contents of a module of PyTorch's are: a module, or the reason why there is none."""

    module: str | None
    reason: str = ""


def is_module(path: str) -> bool:
    """Whether PyTorch has a module `torch.<path>`, as far as programs ask for it. All below a refused one is."""
    package, _, name = path.rpartition(".")
    return not path or name in BELOW.get(package, ()) or reason_against(path) != ""


def reason_against(path: str) -> str:
    """Why this module, or one above it, is refused; empty if it is not."""
    return next((reason for refused, reason in REFUSED.items() if f"{path}.".startswith(f"{refused}.")), "")


def homes_of(path: str) -> list[Home]:
    """Where to look for the contents of `torch.<path>`, best first."""
    beside = [Home(f"{__package__}.{BESIDE[path]}")] if path in BESIDE else []
    if not path:
        return [Home("extempo"), *beside]
    reason = reason_against(path)
    if reason:
        questions = [Home(f"{__package__}.{OWN[path]}")] if path in OWN else []
        return [*questions, Home(None, reason)]
    homes = [Home(f"extempo.{path}")]
    while path:
        if path in OWN:
            return [Home(f"{__package__}.{OWN[path]}"), *homes[1:]]
        if path in HOMES:
            homes.append(Home(HOMES[path]))
        path = path.rpartition(".")[0]
    return [*homes, *beside]
