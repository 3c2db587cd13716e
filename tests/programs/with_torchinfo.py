"""Summaries of a convolutional, a recurrent and an attending network."""

import torch
from fixed import show
from torch import nn
from torchinfo import summary


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.out = nn.Embedding(20, 8), nn.LSTM(8, 16, 2, batch_first=True), nn.Linear(16, 5)

    def forward(self, words):
        return self.out(self.lstm(self.embed(words))[0])


pictures = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
)
columns = ("input_size", "output_size", "num_params", "kernel_size", "mult_adds", "trainable")
show(
    pictures=str(summary(pictures, input_size=(2, 3, 16, 16), verbose=0, col_names=columns)).splitlines(),
    tagger=str(summary(Tagger(), input_data=torch.zeros(2, 5, dtype=torch.long), verbose=0, depth=2)).splitlines(),
    attention=summary(nn.Transformer(16, 2, 1, 1, 32), input_size=[(4, 2, 16), (3, 2, 16)], verbose=0).total_params,
)
