"""The exponential of a matrix by products of matrices, whose gradient takes twice as many products as the value.

The gradient of torch.linalg.matrix_exp is the exponential of a matrix twice as wide, whose products take eight times as many
operations; docs/speed.md has the times.
"""

import math

import torch
from torch import Tensor

from ..utils.torch_internals import is_mapped

DEGREE = 8
REACH = {torch.float32: 0.58, torch.float64: 0.0499}
"""The largest 1-norm t for which t^8 / 9!, the relative backward error of the Taylor polynomial, is below the rounding of a number
(Bader, Blanes & Casas 2019)."""
MOST = 120
"""The most squarings: 2^-MOST is a normal number in float32. A larger matrix overflows, as it should."""


def exponential(
    a: Tensor,  # (..., n, n), float32 or float64, or complex numbers of these
) -> Tensor:
    """Return exp(a) by scaling and squaring: p(a / 2^s)^(2^s), with the Taylor polynomial p of degree 8.

    s is the smallest for which the scaled matrix is within REACH; of several matrices, the largest counts. Where numbers cannot
    be read (on the meta device, under vmap, while torch compiles or exports), the result is that of torch.linalg.matrix_exp.
    """
    if a.is_meta or torch.compiler.is_compiling() or is_mapped(a):
        return torch.linalg.matrix_exp(a)
    norm = float(a.detach().abs().sum(-2).amax())
    squarings = math.frexp(norm / REACH[a.real.dtype])[1]  # 0 of a norm that is infinite or NaN, as is the result then
    squarings = min(max(0, squarings), MOST)
    result = _taylor(a * 2.0**-squarings)
    for _ in range(squarings):
        result = result @ result
    return result


def _taylor(a: Tensor) -> Tensor:
    """Return the Taylor polynomial of exp at a, by four products (Paterson & Stockmeyer 1973)."""
    square = a @ a
    cube, fourth = square @ a, square @ square
    one, *rest = (1 / math.factorial(k) for k in range(DEGREE + 1))
    unit = one * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    low = unit + rest[0] * a + rest[1] * square + rest[2] * cube
    return low + fourth @ (rest[3] * unit + rest[4] * a + rest[5] * square + rest[6] * cube + rest[7] * fourth)
