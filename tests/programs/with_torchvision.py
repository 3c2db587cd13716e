"""Networks, transforms of images in both forms, data sets and boxes, without the library's native ops."""

import torch
import torchvision
from fixed import fill, show, waves
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms
from torchvision.transforms import functional, v2


def filled(net):
    """Weights that keep deep networks in range."""
    with torch.no_grad():
        for i, parameter in enumerate(net.parameters()):
            values = waves(parameter.numel(), step=0.37 * (i % 7 + 1)).reshape(parameter.shape)
            parameter.copy_(values * 0.05 if parameter.dim() > 1 else 1.0 + 0.0 * values)
    return net.eval()


picture = waves(1, 3, 64, 64, step=0.01)
small = (waves(3, 12, 12) + 1) / 2
names = ["resnet18", "mobilenet_v2", "squeezenet1_1", "shufflenet_v2_x0_5"]
scores = {name: filled(getattr(models, name)(weights=None, num_classes=5))(picture) for name in names}
attending = models.VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=3)
fill(attending)

net = models.resnet18(num_classes=4)
fill(net, 0.05)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
losses = []
for _ in range(2):
    optimizer.zero_grad()
    losses.append(nn.functional.cross_entropy(net(waves(4, 3, 32, 32, step=0.1)), torch.arange(4)))
    losses[-1].backward()
    optimizer.step()

prepare = transforms.Compose(
    [transforms.Resize(20), transforms.CenterCrop(16), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)]
)
images, labels = next(iter(DataLoader(datasets.FakeData(8, (3, 24, 24), 3, prepare), batch_size=4)))
drawn = transforms.ToPILImage()(small)
newer = v2.Compose([v2.ToImage(), v2.CenterCrop(8), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])])
boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
show(
    scores=scores,
    attending=attending.eval()(waves(2, 3, 32, 32)),
    losses=losses,
    batch=[list(images.shape), list(labels.shape)],
    transforms=[
        functional.rotate(small, 30).sum(),
        functional.resize(small, [4, 4], antialias=True).sum(),
        functional.adjust_hue(small, 0.1).sum(),
        functional.affine(small, 10, [1, 1], 1.1, [3.0, 3.0]).sum(),
        functional.gaussian_blur(small, 3).sum(),
        functional.to_tensor(drawn).sum(),
        newer(drawn).sum(),
    ],
    grid=torchvision.utils.make_grid(waves(5, 3, 4, 4), nrow=3, normalize=True).sum(),
    boxes=[torchvision.ops.box_iou(boxes, boxes), torchvision.ops.box_convert(boxes, "xyxy", "cxcywh")],
)
