"""Training images as a recipe has them seen, otherwise each time; drawn from torch's global generator."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from ..registry.schema import Affine, Augmentation


def augmented(images: Tensor, by: Augmentation) -> Tensor:
    """(n, height, width) images, each turned, scaled and sheared, and then moved, as far as `by` says."""
    if by.affine is not None:
        images = mapped(images, by.affine)
    return images if by.shift is None else shifted(images, by.shift)


def mapped(images: Tensor, affine: Affine) -> Tensor:
    """(n, height, width) images, each by a map of its own about the centre: bilinear, zeros from outside."""
    n, height, width = images.shape
    angle, growth, lean = 2 * torch.rand(3, n) - 1
    angle, growth = angle * math.radians(affine.degrees or 0), 1 + growth * (affine.scale or 0)
    lean = (lean * math.radians(affine.shear or 0)).tan()
    # from where a pixel's value comes: (x, y) in halves of the width and height
    cos, sin, wide = angle.cos() / growth, angle.sin() / growth, width / height
    x = torch.stack([cos, (cos * lean - sin) / wide, torch.zeros(n)], -1)
    y = torch.stack([sin * wide, sin * lean + cos, torch.zeros(n)], -1)
    grid = functional.affine_grid(torch.stack([x, y], 1), [n, 1, height, width], align_corners=False)
    found = functional.grid_sample(images[:, None].float(), grid, align_corners=False)[:, 0]
    return (found if images.is_floating_point() else found.round()).to(images.dtype)


def shifted(images: Tensor, most: int) -> Tensor:
    """(n, height, width) images, each moved by -most to most pixels down and right, evenly, zeros moving in."""
    n, *size = images.shape
    rows, columns = (torch.randint(2 * most + 1, (n, 1)) + torch.arange(length) for length in size)
    padded = functional.pad(images, [most] * 4)
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
