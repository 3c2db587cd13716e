"""Data sets, samplers and the DataLoader, with PyTorch's names; also importable as `extempo.utils.data`.

Beyond PyTorch: batch samplers that look at lengths, a collate that makes ragged tensors, and data
sets on files larger than memory.
"""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from .batching import BucketBatchSampler, MaxTokensBatchSampler
from .collation import default_collate, default_convert
from .datasets import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .files import NpyDataset, SafetensorsDataset
from .loader import DataLoader
from .samplers import (
    BatchSampler,
    BlockRandomSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .tables import ArrowDataset, ParquetDataset
from .worker_info import WorkerInfo, get_worker_info

__all__ = [
    "ArrowDataset",
    "BatchSampler",
    "BlockRandomSampler",
    "BucketBatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "MaxTokensBatchSampler",
    "NpyDataset",
    "ParquetDataset",
    "RandomSampler",
    "SafetensorsDataset",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

publish(__name__, __all__, globals())

explain_absent(__name__)
