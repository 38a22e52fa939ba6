"""Random augmentation of training images, (n, height, width), redrawn for every batch from torch's global generator."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from ..registry.schema import Affine, Augmentation


def augmented(images: Tensor, augmentation: Augmentation) -> Tensor:
    """Return the images, each rotated, scaled, sheared and then shifted by random amounts within the recipe's bounds."""
    if augmentation.affine is not None:
        images = transformed(images, augmentation.affine)
    return images if augmentation.shift is None else shifted(images, augmentation.shift)


def transformed(images: Tensor, affine: Affine) -> Tensor:
    """Return the images after a random affine map of each about its centre, bilinear; pixels from outside are zero."""
    n, height, width = images.shape
    angle, scale, shear = 2 * torch.rand(3, n) - 1
    angle, scale = angle * math.radians(affine.degrees or 0), 1 + scale * (affine.scale or 0)
    shear = (shear * math.radians(affine.shear or 0)).tan()
    # the inverse map, from a pixel to where its value comes from, in units of half the width and height
    cos, sin, aspect = angle.cos() / scale, angle.sin() / scale, width / height
    x = torch.stack([cos, (cos * shear - sin) / aspect, torch.zeros(n)], -1)
    y = torch.stack([sin * aspect, sin * shear + cos, torch.zeros(n)], -1)
    grid = functional.affine_grid(torch.stack([x, y], 1), [n, 1, height, width], align_corners=False)
    sampled = functional.grid_sample(images[:, None].float(), grid, align_corners=False)[:, 0]
    return (sampled if images.is_floating_point() else sampled.round()).to(images.dtype)


def shifted(images: Tensor, largest: int) -> Tensor:
    """Return the images, each moved down and right by -largest to largest pixels (uniform); pixels from outside are zero."""
    n, *size = images.shape
    rows, columns = (torch.randint(2 * largest + 1, (n, 1)) + torch.arange(length) for length in size)
    padded = functional.pad(images, [largest] * 4)
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
