"""Views keep sharing memory, one object at two places stays one, and a circle comes back as one."""

import io

import torch
from torch import nn


class Node(nn.Module):
    def __init__(self, parent=None):
        super().__init__()
        self.__dict__["parent"] = parent
        self.children_ = nn.ModuleList()
        self.value = nn.Parameter(torch.ones(2))


root = Node()
root.children_.append(Node(root))
shared = [1, 2]
base = torch.arange(6.0)
file = io.BytesIO()
torch.save({"root": root, "a": shared, "b": shared, "base": base, "part": base[2:4], "t": base.view(2, 3).t()}, file)
file.seek(0)
back = torch.load(file, map_location=lambda storage, location: storage, weights_only=False)
back["base"].mul_(10)
print(back["part"].tolist(), back["t"].tolist(), back["t"].stride())
print(back["a"] is back["b"], back["root"].children_[0].parent is back["root"])
print([name for name, _ in back["root"].named_parameters()])
