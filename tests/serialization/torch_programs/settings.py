"""Settings of all kinds beside a model: namespaces, enums, namedtuples, paths, dates, defaultdicts."""

import argparse
import datetime
import enum
import io
import pathlib
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import torch


class Phase(enum.Enum):
    TRAIN = "train"
    TEST = "test"


Best = namedtuple("Best", ["epoch", "loss"])
counts = defaultdict(list)
counts["a"].append(1)
settings = {
    "args": argparse.Namespace(lr=0.1, layers=[1, 2], name="run"),
    "phase": Phase.TEST,
    "best": Best(3, torch.tensor(0.25)),
    "path": pathlib.Path("runs") / "a",
    "when": datetime.datetime(2026, 5, 6, 7, 8),
    "took": datetime.timedelta(seconds=90),
    "counts": counts,
    "words": Counter("hello"),
    "last": deque([1, 2, 3], maxlen=3),
    "order": OrderedDict(b=1, a=2),
    "array": np.arange(4.0),
    "scalar": np.float32(0.5),
    "range": range(3),
    "dtype": torch.float16,
    "size": torch.Size([2, 3]),
    "device": torch.device("cpu"),
    "set": {1, 2},
    "bytes": b"\x00\xff",
}
file = io.BytesIO()
torch.save(settings, file)
file.seek(0)
back = torch.load(file, weights_only=False)
back["counts"]["new"].append(2)
back["last"].append(4)
for key, value in back.items():
    print(key, type(value).__name__, value if key not in ("dtype", "size", "words") else "")
