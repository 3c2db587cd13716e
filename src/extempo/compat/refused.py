"""Names of PyTorch that Extempo refuses, each with what to use instead.

`ex.sparse_coo_tensor` can be imported and asked about, and says what to do instead when it is used (`core.absent_names`
has how). A method of tensors that is refused is not there: `x.to_sparse` raises `RefusedName`, an AttributeError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ..core.absent_names import RefusedName, module_getattr
from ..core.tensor_methods import TensorMethods

_COMPLEX = "complex numbers are not part of Extempo; keep real and imaginary parts in a last dimension of 2"
_POLAR = "complex numbers are not part of Extempo; use ex.stack([abs * ex.cos(angle), abs * ex.sin(angle)], -1)"
_VIEW_COMPLEX = (
    "complex numbers are not part of Extempo; a last dimension of 2 already is their real and imaginary parts"
)
_FFT = (
    "Fourier transforms need complex numbers, which Extempo does not have; "
    "transform data with numpy.fft before it becomes a tensor, or multiply by ex.cos and ex.sin matrices"
)
_SPARSE = (
    "sparse tensors are not part of Extempo; use a dense tensor, "
    "or keep indices and values and combine them with index_add, gather and scatter_add"
)
_QUANTISED = "quantised tensors are not part of Extempo; use float16 or bfloat16 to save memory"
_SCRIPT = "Extempo runs your Python as it is; leave the script or trace call out"
_STORAGE = "typed storages are not part of Extempo; use x.numpy() for the memory of a tensor"
_NOT_RAGGED = "this is an ordinary tensor, and it has no rows to pad; ex.ragged(rows) makes a ragged one"
_SHARED = "tensors cannot be moved into shared memory; give ex.from_numpy an array on multiprocessing.shared_memory"
_COMPILER = (
    "ex.compile has nothing to tune and no graph breaks; write `@ex.eager` for disable, ex.compile.clear() for reset, "
    "False for is_compiling()"
)
_PROGRAM = "use ex.program(model, example, dynamic=...), whose programs keep branches and loops"
_ONNX = "use ex.program(model, example, dynamic=...).to_onnx(path)"
_NOT_YET = "not part of this version; the script runs without it"
_ELSEWHERE = "not part of Extempo; Python's own modules (cProfile, multiprocessing) work on its code"
_DEVICE = "Extempo runs on the CPU; drop the call"
_REMOVED = "PyTorch itself removed it; torch.linalg has eigh, solve and lstsq"
_LOOP = "write the formula of tensors, which runs on all elements at once; vmap makes one of a function of a sample"
_RESIZE = "use x.resize_(shape), or x.reshape(shape) where the number of elements stays"
_INTERNAL = "it is a part of PyTorch's own machinery; no program that computes needs it"
_REINFORCE = "PyTorch itself removed it; use log_prob of a distribution times the reward"
_VOLATILE = "write `with ex.no_grad():` around what needs no gradient"
_HASH = "hash the bytes of x.numpy()"
_INDEX = "write x[indices], with tensors or lists of positions"
_MKLDNN = "there is one memory layout; leave the conversion out"


def _table(**names_by_reason: str) -> dict[str, str]:
    """From {reason: "name name"} to {name: reason}."""
    return {name: globals()[reason] for reason, names in names_by_reason.items() for name in names.split()}


# Top-level names, `ex.<name>`.
NAMES: Mapping[str, str] = _table(
    _COMPLEX="complex imag",
    _POLAR="polar",
    _VIEW_COMPLEX="view_as_complex view_as_complex_copy view_as_real view_as_real_copy",
    _FFT="fft stft istft",
    _SPARSE="sparse sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc sparse_coo_tensor sparse_csr_tensor "
    "sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor smm spmm dsmm hsmm hspmm saddmm "
    "sspaddmm resize_as_sparse_",
    _QUANTISED="qscheme per_tensor_affine per_channel_affine "
    "per_tensor_symmetric per_channel_symmetric per_channel_affine_float_qparams quantize_per_tensor "
    "quantize_per_tensor_dynamic quantize_per_channel dequantize empty_quantized int_repr q_scale "
    "q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis "
    "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine "
    "fused_moving_avg_obs_fake_quant quantized_batch_norm quantized_max_pool1d quantized_max_pool2d "
    "quantized_max_pool3d quantized_lstm_cell quantized_gru_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell "
    "quantization ao",
    _SCRIPT="jit",
    _STORAGE="Storage TypedStorage UntypedStorage FloatStorage DoubleStorage HalfStorage BFloat16Storage LongStorage "
    "IntStorage ShortStorage CharStorage ByteStorage BoolStorage ComplexFloatStorage ComplexDoubleStorage",
    _COMPILER="compiler _dynamo _inductor",
    _PROGRAM="export",
    _ONNX="onnx",
    _ELSEWHERE="profiler multiprocessing hub accelerator",
)

# Methods and properties of tensors, `x.<name>`.
METHODS: Mapping[str, str] = _table(
    _COMPLEX="cfloat cdouble chalf imag",
    _FFT="stft istft",
    _SPARSE="to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc coalesce is_coalesced "
    "sparse_dim dense_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_ indices values "
    "crow_indices col_indices ccol_indices row_indices smm sspaddmm",
    _QUANTISED="dequantize int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points "
    "q_per_channel_axis qscheme",
    _STORAGE="storage_type",
    _NOT_RAGGED="to_padded_tensor",
    _SHARED="share_memory_",
    _MKLDNN="to_mkldnn",
    _DEVICE="ipu mtia xpu",
    _REMOVED="eig lstsq solve symeig",
    _LOOP="map_ map2_",
    _RESIZE="resize resize_as",
    _INTERNAL="const_data_ptr grad_dtype is_distributed module_load output_nr slice_inverse",
    _REINFORCE="reinforce",
    _VOLATILE="volatile",
    _HASH="hash_tensor",
    _INDEX="index",
)


class RefusedMethod(property):
    """A name of PyTorch's Tensor that says why it is not there. To `hasattr` it is not."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(self._refuse)
        self._name = name
        self._reason = reason

    def _refuse(self, tensor: Any) -> NoReturn:
        raise RefusedName(f"Tensor.{self._name}: {self._reason}", self._name)

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        self._refuse(instance)


for _name, _reason in METHODS.items():
    setattr(TensorMethods, _name, RefusedMethod(_name, _reason))

getattr_of_extempo = module_getattr("extempo", NAMES)
