"""Images: filters, colours, geometry, morphology, losses and augmentation, with gradients."""

import kornia
import torch
from fixed import show, waves
from kornia import augmentation

picture = (waves(2, 3, 16, 16) + 1) / 2
grey = picture[:, :1]
trained = picture.clone().requires_grad_()
kornia.filters.gaussian_blur2d(trained, (5, 5), (1.5, 1.5)).pow(2).sum().backward()
augmented = torch.nn.Sequential(
    augmentation.RandomHorizontalFlip(p=1.0),
    augmentation.CenterCrop(8),
    augmentation.Normalize(torch.tensor([0.5, 0.5, 0.5]), torch.tensor([0.5, 0.5, 0.5])),
)
show(
    gradient=trained.grad.sum(),
    filters=[
        kornia.filters.sobel(picture).sum(),
        kornia.filters.canny(grey)[0].sum(),
        kornia.filters.median_blur(picture, (3, 3)).sum(),
        kornia.filters.laplacian(picture, 3).abs().sum(),
        kornia.filters.bilateral_blur(picture, (3, 3), 0.1, (1.5, 1.5)).sum(),
    ],
    colours=[
        kornia.color.rgb_to_grayscale(picture).sum(),
        kornia.color.rgb_to_hsv(picture).sum(),
        kornia.color.rgb_to_lab(picture).sum(),
    ],
    geometry=[
        kornia.geometry.transform.rotate(picture, torch.tensor([30.0, 10.0])).sum(),
        kornia.geometry.transform.resize(picture, (8, 8)).sum(),
        kornia.geometry.conversions.axis_angle_to_rotation_matrix(waves(2, 3)),
    ],
    others=[
        kornia.feature.harris_response(grey).sum(),
        kornia.morphology.dilation(picture, torch.ones(3, 3)).sum(),
        kornia.enhance.equalize(picture).sum(),
        kornia.losses.ssim_loss(picture, picture * 0.9, 5),
        kornia.losses.total_variation(picture),
        kornia.metrics.psnr(picture, picture * 0.9, 1.0),
    ],
    augmented=augmented(picture).sum(),
    random=augmentation.RandomAffine(10, p=1.0)(picture).shape,
)
