"""Random augmentation of training images, (n, height, width), redrawn for every batch from torch's global generator."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from ..registry.schema import Affine, Augmentation, Elastic


def augmented(images: Tensor, augmentation: Augmentation) -> Tensor:
    """Return the images, (n, height, width), each warped and then shifted by random amounts as the recipe says."""
    if augmentation.affine is not None or augmentation.elastic is not None:
        images = warped(images, augmentation.affine, augmentation.elastic)
    return images if augmentation.shift is None else shifted(images, augmentation.shift)


def warped(images: Tensor, affine: Affine | None = None, elastic: Elastic | None = None) -> Tensor:
    """Return the images, (n, height, width), each after an affine map and displacements of its own.

    Values between pixels are bilinear; pixels from outside are zero.
    """
    n, height, width = images.shape
    maps = torch.eye(2, 3, dtype=torch.float32).expand(n, 2, 3)
    if affine is not None:
        maps = affine_maps(n, width / height, affine)
    grid = functional.affine_grid(maps, [n, 1, height, width], align_corners=False)
    if elastic is not None:
        halves = torch.tensor([width / 2, height / 2], dtype=torch.float32)  # the units of the grid, in pixels
        grid = grid + displacements(n, height, width, elastic) / halves
    sampled = functional.grid_sample(images[:, None].float(), grid, align_corners=False)[:, 0]
    return (sampled if images.is_floating_point() else sampled.round()).to(images.dtype)


def affine_maps(n: int, aspect: float, affine: Affine) -> Tensor:
    """Return n random maps about the centre, (n, 2, 3), each from a pixel to where its value comes from.

    Coordinates are (x, y) in units of half the width and height, and `aspect` is width / height.
    """
    angle, scale, shear = 2 * torch.rand(3, n, dtype=torch.float32) - 1
    angle, scale = angle * math.radians(affine.degrees or 0), 1 + scale * (affine.scale or 0)
    shear = (shear * math.radians(affine.shear or 0)).tan()
    cos, sin = angle.cos() / scale, angle.sin() / scale
    x = torch.stack([cos, (cos * shear - sin) / aspect, torch.zeros_like(cos)], -1)
    y = torch.stack([sin * aspect, sin * shear + cos, torch.zeros_like(cos)], -1)
    return torch.stack([x, y], 1)


def displacements(n: int, height: int, width: int, elastic: Elastic) -> Tensor:
    """Return random smooth displacements in pixels, (n, height, width, 2): along x and along y."""
    down, across = (_gaussian(length, elastic.sigma) for length in (height, width))
    noise = elastic.alpha * (2 * torch.rand(n, 2, height, width, dtype=torch.float32) - 1)
    return (down @ noise @ across).permute(0, 2, 3, 1)


def _gaussian(length: int, sigma: float) -> Tensor:
    """Return the matrix, (length, length), that convolves a line with a Gaussian; the line is zero beyond its ends."""
    at = torch.arange(length, dtype=torch.float32)
    return torch.exp(-((at[:, None] - at) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))


def shifted(images: Tensor, largest: int) -> Tensor:
    """Return the images, each moved down and right by -largest to largest pixels (uniform); pixels from outside are zero."""
    n, *size = images.shape
    rows, columns = (torch.randint(2 * largest + 1, (n, 1)) + torch.arange(length) for length in size)
    padded = functional.pad(images, [largest] * 4)
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
