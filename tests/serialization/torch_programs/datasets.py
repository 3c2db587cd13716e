"""Data sets and splits of them are saved and read by a loader after loading."""

import os
import tempfile

import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset


class Windows(Dataset):
    def __init__(self, series, width):
        self.series = series
        self.width = width

    def __len__(self):
        return len(self.series) - self.width

    def __getitem__(self, i):
        return self.series[i : i + self.width], self.series[i + self.width]


series = torch.arange(10.0)
windows = Windows(series, 3)
pairs = TensorDataset(torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 0, 1]))
path = os.path.join(tempfile.mkdtemp(), "data.pt")
torch.save({"train": Subset(windows, [0, 2, 4]), "all": windows, "pairs": ConcatDataset([pairs, pairs])}, path)
back = torch.load(path, weights_only=False)
print(back["train"].dataset is back["all"], len(back["all"]), len(back["pairs"]))
for x, y in DataLoader(back["train"], batch_size=2):
    print(x.tolist(), y.tolist())
print([y.item() for _, y in back["pairs"]])
