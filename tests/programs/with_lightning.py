"""A module of Lightning: trained, validated, saved, loaded and gone on with; two optimizers by hand; Fabric."""

import logging
import tempfile
import warnings

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from fixed import fill, show, waves
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
for name in ("pytorch_lightning", "lightning_fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)

x = waves(40, 4)
data = TensorDataset(x, (x.sum(1) > 0).long())
folder = tempfile.mkdtemp()


class Classifier(pl.LightningModule):
    def __init__(self, hidden=8, lr=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        scores = self(batch[0])
        right = (scores.argmax(1) == batch[1]).float().mean()
        self.log_dict({"val_loss": F.cross_entropy(scores, batch[1]), "val_acc": right})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)]


class ByHand(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.first, self.second = nn.Linear(4, 2), nn.Linear(2, 1)

    def training_step(self, batch, index):
        first, second = self.optimizers()
        for optimizer, target in ((first, 1.0), (second, -1.0)):
            loss = (self.second(self.first(batch[0])) - target).pow(2).mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        self.log("loss", loss)

    def configure_optimizers(self):
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.first, self.second)]


def trainer(**options):
    quiet = {"enable_progress_bar": False, "logger": False, "default_root_dir": folder, "accelerator": "cpu"}
    return pl.Trainer(**{**quiet, **options})


model = Classifier()
fill(model)
best = pl.callbacks.ModelCheckpoint(folder, monitor="val_loss", filename="best")
stop = pl.callbacks.EarlyStopping("val_loss", patience=3)
first = trainer(max_epochs=3, callbacks=[best, stop], gradient_clip_val=1.0)
first.fit(model, DataLoader(data, batch_size=8), DataLoader(data, batch_size=20))
loaded = Classifier.load_from_checkpoint(best.best_model_path)
second = trainer(max_epochs=4, accumulate_grad_batches=2, enable_checkpointing=False)
second.fit(loaded, DataLoader(data, batch_size=8), DataLoader(data, batch_size=20), ckpt_path=best.best_model_path)
two = ByHand()
fill(two)
third = trainer(max_epochs=2, enable_checkpointing=False)
third.fit(two, DataLoader(data, batch_size=10))

fabric = Fabric(accelerator="cpu", devices=1)
layer = nn.Linear(4, 2)
fill(layer)
layer, optimizer = fabric.setup(layer, torch.optim.SGD(layer.parameters(), lr=0.1))
losses = []
for batch, _ in fabric.setup_dataloaders(DataLoader(data, batch_size=20)):
    optimizer.zero_grad()
    losses.append(layer(batch).pow(2).mean())
    fabric.backward(losses[-1])
    optimizer.step()
show(
    fitted=dict(first.callback_metrics),
    resumed=dict(second.callback_metrics),
    steps=[first.global_step, second.global_step, third.global_step],
    predicted=loaded(waves(3, 4, step=2.0)),
    hyperparameters=dict(loaded.hparams),
    by_hand=dict(third.callback_metrics),
    fabric=losses,
)
