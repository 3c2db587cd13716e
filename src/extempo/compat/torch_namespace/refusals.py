"""Names of PyTorch's that are neither in Extempo nor beside it, by where they are: what they are, and what to use.

`torch.lobpcg` can be imported and asked about, and says this when it is used. A name that stands nowhere is misspelt.
"""

from __future__ import annotations

from collections.abc import Mapping

_INTERNAL = "it is a part of PyTorch's own machinery, which Extempo does not have; no program that computes needs it"
_SPARSE = "sparse tensors are not part of Extempo; use index_add, gather and scatter_add on dense ones"
_QUANTISED = "quantised tensors are not part of Extempo; use float16 or bfloat16 to save memory"
_SCRIPT = "it is a part of TorchScript; Extempo runs your Python as it is, and torch.jit.trace makes a program of it"
_AUTOCAST = "write the block, `with torch.autocast(...):`, which is accepted and changes no number"
_BITS = "dtypes of single bits are not part of Extempo; use uint8 with & and >>"
_LAYER = "use the layer of that name: nn.LSTM, nn.GRU, nn.RNN"
_SYNC_NORM = "it is a step of batch norm over several devices; use torch.nn.functional.batch_norm"
_FLOAT8 = "numbers of 8 bits are not part of Extempo; use torch.matmul on float32 or bfloat16"
_ONE_PROCESS = "every process holds the model whole here; DistributedDataParallel shares the data"
_PROGRAM = "use torch.export.export(model, args), whose programs keep branches and loops, and its module()"
_GUARDS = "torch.compile has no guards to choose here: results are the same bits as without it; leave it out"
_ATTENTION = "there is one kernel of attention here, scaled_dot_product_attention; leave the choice out"
_PROFILER = "use torch.profiler.profile with record_function, which is ex.profile"
_READER = "use torch.load and torch.save; nothing in a file is ever executed"
_DEVICE = "Extempo runs on the CPU; guard the line with `if torch.cuda.is_available():`"

# Where: {why: names}
_NAMES: Mapping[str, Mapping[str, str]] = {
    "functorch": {
        "use torch.func.functional_call, with torch.func.stack_module_state for ensembles": "FunctionalModule "
        "FunctionalModuleWithBuffers combine_state_for_ensemble make_functional make_functional_with_buffers"
    },
    "torch": {
        _INTERNAL: "AVG PRIVATE_OPS SUM USE_GLOBAL_DEPS USE_RTLD_GLOBAL_WITH_LIBTORCH StorageBase classproperty "
        "get_file_path native_norm prepare_multiprocessing_environment "
        "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 slice_inverse sym_fresh_size thread_safe_generator",
        _SPARSE: "ccol_indices_copy col_indices_copy crow_indices_copy indices_copy row_indices_copy values_copy",
        _QUANTISED: "QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage choose_qparams_optimized "
        "quantized_gru quantized_lstm",
        _SCRIPT: "import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema "
        "parse_type_comment unify_type_list",
        _AUTOCAST: "get_autocast_ipu_dtype get_autocast_xla_dtype set_autocast_cpu_dtype set_autocast_cpu_enabled "
        "set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_autocast_ipu_dtype "
        "set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled",
        _BITS: "bit bits16 bits1x8 bits2x4 bits4x2 bits8",
        _LAYER: "gru lstm rnn_relu rnn_tanh",
        _SYNC_NORM: "batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats "
        "batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats",
        "PyTorch itself removed it; use torch.linalg.eigh for a symmetric matrix": "eig symeig",
        "PyTorch itself removed it; use torch.linalg.solve": "solve",
        "PyTorch itself removed it; use torch.linalg.lstsq": "lstsq",
        "PyTorch itself removed it; use torch.linalg.matrix_rank": "matrix_rank",
        "use torch.linalg.eigh, which has all eigenvalues, and take the first or last k": "lobpcg",
        "use torch.nn.functional.embedding_bag, or nn.EmbeddingBag": "embedding_bag",
        "use max_norm= of torch.nn.functional.embedding": "embedding_renorm_",
        "use ex.ragged, whose rows have sums, means, maxima and minima; or scatter_reduce": "segment_reduce",
        "use torch.from_numpy(numpy.memmap(path, dtype, mode))": "from_file",
        "hash the bytes of x.numpy()": "hash_tensor",
    },
    "torch.onnx": {
        "use torch.onnx.export(model, args, f, dynamic_shapes=...)": "ExportableModule InputObserver",
        "an op states its ONNX form itself, and torch.onnx.export finds it; leave it out": "errors operators "
        "symbolic_caffe2 symbolic_opset7 symbolic_opset8 symbolic_opset9 symbolic_opset10 symbolic_opset11 "
        "symbolic_opset12 symbolic_opset13 symbolic_opset14 symbolic_opset15 symbolic_opset16 symbolic_opset17 "
        "symbolic_opset18 symbolic_opset19 symbolic_opset20",
    },
    "torch.nn.functional": {_FLOAT8: "grouped_mm scaled_grouped_mm scaled_mm", _INTERNAL: "assert_int_or_pair"},
    "torch.nn.utils.parametrize": {
        "copy the module as a whole, copy.deepcopy(module)": "transfer_parametrizations_and_params"
    },
    "torch.nn.attention": {
        _ATTENTION: "activate_flash_attention_impl current_flash_attention_impl list_flash_attention_impls "
        "register_flash_attention_impl restore_flash_attention_impl"
    },
    "torch.optim": {"use optimizer.follow(model)": "swap_in_optimizer_params_and_state"},
    "torch.autograd": {"a leaf's .grad lies like the leaf; there is nothing to choose": "enforce_grad_layout_policy"},
    "torch.autograd.profiler": {
        _PROFILER: "EnforceUnique FunctionEvent KinetoStepTracker MemRecordsAcc load_nvprof parse_nvprof_trace"
    },
    "torch.func": {"use einops.rearrange (pip install einops), or view and permute": "rearrange"},
    "torch.utils.checkpoint": {_ONE_PROCESS: "GraphExecGroup"},
    "torch.utils.tensorboard": {"use SummaryWriter": "FileWriter RecordWriter"},
    "torch.utils.dlpack": {"ask x.__dlpack_device__(): (1, 0) is the CPU": "DLDeviceType"},
    "torch.random": {_INTERNAL: "thread_safe_generator"},
    "torch.serialization": {
        _READER: "StorageType get_unsafe_globals_in_checkpoint register_package skip_data storage_to_tensor_type",
        _DEVICE: "validate_cuda_device validate_hpu_device",
    },
    "torch.compiler": {
        _GUARDS: "get_default_backend keep_portable_guards_unsafe keep_tensor_guards_unsafe skip_all_guards_unsafe "
        "skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe skip_guard_on_inbuilt_nn_modules_unsafe",
        "use torch.export.load": "load_compiled_function",
        "NumPy's functions run as they are; use torch.from_numpy for gradients": "wrap_numpy",
    },
    "torch.jit": {_SCRIPT: "export_opnames last_executed_optimized_graph"},
    "torch.export": {
        _PROGRAM: "AdditionalInputs Constraint CustomDecompTable ExportBackwardSignature ExportGraphSignature "
        "FlatArgsAdapter ModuleCallEntry ModuleCallSignature ShapesCollection UnflattenedModule register_dataclass "
        "unflatten"
    },
    "torch.overrides": {"no class's __torch_function__ is asked; call the function itself": "redispatch_function"},
    "torch.distributed": {
        _ONE_PROCESS: "BackendConfig all_gather_coalesced get_backend_config record_comm recv_object_list "
        "register_rendezvous_handler rendezvous send_object_list shrink_group split_group"
    },
    "torch.cuda": {
        _DEVICE: "ComplexDoubleStorage ComplexFloatStorage caching_allocator_disabled current_solver_handle "
        "host_memory_stats_as_nested_dict memory_stats_as_nested_dict reset_accumulated_host_memory_stats "
        "reset_peak_host_memory_stats"
    },
    "torch.xpu": {_DEVICE: "memory_stats_as_nested_dict"},
    "torch.backends.cuda": {
        _DEVICE: "blas_workspace_size cuBLASModule cuFFTPlanCache cuFFTPlanCacheAttrContextProp cuFFTPlanCacheManager "
        "cublas_workspace_size cublaslt_workspace_size cufft_plan_cache preferred_blas_library "
        "preferred_linalg_library preferred_rocm_fa_library"
    },
    "torch.backends.cudnn": {_DEVICE: "depthwise_kernel"},
}
_REASONS: Mapping[str, Mapping[str, str]] = {
    place: {name: reason for reason, names in families.items() for name in names.split()}
    for place, families in _NAMES.items()
}


def reason_for(place: str, name: str) -> str:
    """Why a name of a module is refused, and what to use; empty if PyTorch has no such name, as far as is known."""
    return _REASONS.get(place, {}).get(name, "")
