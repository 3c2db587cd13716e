"""What scripts ask an accelerator that is not there: the shared half of `cuda`, `mps` and `xpu`.

Questions get their honest answer (none, zero); seeding and cache calls do nothing, as in PyTorch without the device.
Everything else is refused by name.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AcceleratorError",
    "OutOfMemoryError",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_rng_state_all",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "seed",
    "seed_all",
    "set_rng_state_all",
]


def is_available() -> bool:
    """False: Extempo runs on the CPU."""
    return False


def is_initialized() -> bool:
    """False: Extempo runs on the CPU."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no device that could."""
    return False


def device_count() -> int:
    """0: Extempo runs on the CPU."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed; `ex.manual_seed` seeds the CPU's stream."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed; `ex.manual_seed` seeds the CPU's stream."""


def seed() -> None:
    """Nothing to seed."""


def seed_all() -> None:
    """Nothing to seed."""


def empty_cache() -> None:
    """Nothing to give back."""


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """0 bytes."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """0 bytes."""
    return 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """No figures."""
    return {}


def get_rng_state_all() -> list[Any]:
    """No states; `ex.get_rng_state` has that of the CPU's stream."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Nothing to set."""


def get_arch_list() -> list[str]:
    """None is compiled for."""
    return []


def is_tf32_supported() -> bool:
    """False: there is no device that could."""
    return False


class OutOfMemoryError(RuntimeError):
    """Raised by other devices only: without memory Python raises MemoryError."""


class AcceleratorError(RuntimeError):
    """Raised by other devices only."""


# What PyTorch's modules of devices have besides.
_REFUSED = """
    BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CUDAGraph CUDAPluggableAllocator
    CharStorage CharTensor DoubleStorage DoubleTensor Event ExternalStream FloatStorage
    FloatTensor GreenContext HalfStorage HalfTensor IntStorage IntTensor LongStorage LongTensor MemPool ShortStorage
    ShortTensor Stream StreamContext XPUGraph XPUPluggableAllocator caching_allocator_alloc caching_allocator_delete
    caching_allocator_enable can_device_access_peer change_current_allocator check_error clock_rate compile_shader
    cudaStatus cudart current_allocated_memory current_blas_handle current_device current_stream default_generators
    default_stream device device_memory_used device_of driver_allocated_memory get_allocator_backend
    get_device_capability get_device_name get_device_properties get_gencode_flags get_per_process_memory_fraction
    get_rng_state get_stream_from_external get_sync_debug_mode graph graph_pool_handle host_memory_stats init
    initial_seed ipc_collect is_current_stream_capturing list_gpu_processes load_metallib make_graphed_callables
    max_memory_cached mem_get_info memory_cached memory_snapshot memory_summary memory_usage power_draw
    recommended_max_memory reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached
    reset_peak_memory_stats set_device set_per_process_memory_fraction set_rng_state set_stream set_sync_debug_mode
    stream synchronize temperature use_mem_pool utilization
"""


def refusals(device: str) -> dict[str, str]:
    """Names of a device's module that can be imported, and say why they are refused when they are used."""
    reason = f"Extempo runs on the CPU; guard the line with `if ex.{device}.is_available():`"
    return dict.fromkeys(_REFUSED.split(), reason)
