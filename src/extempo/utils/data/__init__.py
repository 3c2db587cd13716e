"""`extempo.data` under the name where PyTorch has it."""

from __future__ import annotations

from ...core.absent_names import explain_absent
from ...data import *  # noqa: F403 # the names are stated once, in data.__all__
from ...data import __all__ as __all__

explain_absent(
    __name__,
    dict.fromkeys(
        ("DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe", "datapipes"),
        "data pipes are not part of Extempo; write a Dataset or an IterableDataset, or a generator",
    ),
)
