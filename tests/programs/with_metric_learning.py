"""Losses and miners of embeddings."""

import torch
from fixed import show, waves
from pytorch_metric_learning import losses, miners

labels = torch.tensor([0, 0, 1, 1, 2, 2])
found = {}
for name in ("TripletMarginLoss", "NTXentLoss", "ContrastiveLoss", "SupConLoss", "MultiSimilarityLoss", "CircleLoss"):
    embeddings = waves(6, 4).requires_grad_()
    loss = getattr(losses, name)()(embeddings, labels)
    loss.backward()
    found[name] = [loss, embeddings.grad]
show(hardest=miners.BatchHardMiner()(waves(6, 4), labels), **found)
