"""Checks of what papers claim of the powers of a recurrent matrix, which take errors back through time.

As in checks.py, a check takes the results of a study, by title, and its docstring says when the verdict is True.
"""

import numpy as np

from ...diagnostics.base import Result
from .checks import Results, Verdict, as_text


def _lengths(stored: Result) -> str:
    radius, norm, powers = (stored.arrays[name].values.flat for name in ("modulus", "norm", "powers"))
    return (
        f"spectral radius {radius[0]:.3g}, norm {norm[0]:.3g}: length multiplied by {powers[0]:.3g} after one step and "
        f"by {powers[-1]:.3g} after {len(powers)}"
    )


def grows(results: Results, part: str, up: bool) -> Verdict:
    """Return whether random vectors h_0 become longer, on average, in each of the last nine steps of h_t = W^T h_{t-1}.

    part: title of the result of the analysis `eigenvalues` whose first matrix is W. up: False to ask whether the vectors
    become shorter.
    """
    steps = np.diff(results[part].powers.values[0, -10:])
    return _lengths(results[part]), bool((steps > 0 if up else steps < 0).all())


def never_grows(results: Results, *parts: str) -> Verdict:
    """Return whether all eigenvalues are below 1 in absolute value, and no step makes random vectors longer on average.

    A step is h_t = W^T h_{t-1}. parts: titles of the results of the analysis `eigenvalues` whose matrices W are checked.
    """
    radii = {part: float(results[part].modulus.values.max()) for part in parts}
    powers = [results[part].powers.values for part in parts]
    shrinks = all((np.diff(p, axis=1) <= 0).all() for p in powers)
    return f"spectral radius: {as_text(radii, '.5g')}", max(radii.values()) < 1 and shrinks


def outlives(results: Results, near: str, far: str) -> Verdict:
    """Return whether random vectors keep over ten times more of their length with one recurrent matrix than with another.

    The vectors h_0 are multiplied by the matrix W at every step, h_t = W^T h_{t-1}. The length kept is the mean of
    |h_T| / |h_0|, where T is the last step. near: title of the result of the analysis `eigenvalues` for the matrix that
    should keep more, since its eigenvalues are nearer to the unit circle. far: title of the result for the other matrix.
    """
    left = {part: float(results[part].powers.values[0, -1]) for part in (near, far)}
    steps = results[near].powers.values.shape[1]
    return f"left after {steps} steps: {as_text(left)}", left[near] > 10 * left[far]


def bounded(results: Results) -> Verdict:
    """Return whether every step h_t = W^T h_{t-1} reduces the mean length of random vectors to 0.9 or less of its value.

    W is a random matrix of norm 0.9. The verdict's text also gives the norm of a trained network's recurrent matrix. That
    norm is above 1, so that errors in the trained network may grow or shrink.
    """
    part = results["norm 0.9"]
    powers = np.concatenate([[1.0], part.powers.values[0]])
    text = f"{_lengths(part)}; trained: {_lengths(results['trained'])}"
    return text, bool((powers[1:] <= float(part.norm.values[0]) * powers[:-1]).all())
