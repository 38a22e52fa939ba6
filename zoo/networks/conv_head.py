"""The part between an image of states and the linear head: convolutions, then the mean over the image."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from ..registry.schema import ConvHead


class ConvolutionalHead(nn.Module):
    """Convolutions with rectifiers, "a shallow CNN" (Turkoglu et al. 2019, C.3); without a specification only the mean."""

    convolutions: Sequence[nn.Conv2d]

    def __init__(self, spec: ConvHead | None, channels: int):
        super().__init__()
        widths = [channels, *(spec.filters if spec else ())]
        kernel, stride = (spec.kernel, spec.stride) if spec else (1, 1)
        self.convolutions = nn.ModuleList(  # type: ignore[assignment]
            nn.Conv2d(*pair, kernel, stride, padding=kernel // 2) for pair in pairwise(widths)
        )
        self.width = widths[-1]

    def forward(
        self,
        h: Tensor,  # (..., channels, height, width)
    ) -> Tensor:
        """Return the mean over the image after the last convolution, (..., self.width)."""
        leading, h = h.shape[:-3], h.flatten(0, -4)
        for convolution in self.convolutions:
            h = F.relu(convolution(h))
        return h.mean((-2, -1)).unflatten(0, leading)

    def multiply_adds(self, image: Sequence[int]) -> int:
        """Return the multiply-adds of the convolutions for one image of these sides."""
        total = 0
        for convolution in self.convolutions:
            image = [(side - 1) // convolution.stride[0] + 1 for side in image]
            total += math.prod(image) * convolution.weight.numel()
        return total
