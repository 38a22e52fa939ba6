"""The scans in Triton: one program takes a tile of the batch through all the steps of a chunk of time, forward or back.

The recurrent weights are read once and stay on the chip, as do the states; a step reads its projected input (backward:
its tape) while the step before is computed, and writes its output and tape (backward: gradients of pre-activations).
What is carried from one chunk to the next lies in float32 in `carry`, which a call reads and overwrites.

Matrices of a step are (batch, blocks * UNITS), row after row. PHASE gives the phase of every block of pre-activations,
FIRST the first block of every phase, WEIGHT the place of its recurrent weights in `weight`, (places, PAD, PAD) padded with zeros, or -1.
"""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

import triton
import triton.language as tl


@triton.jit
def _read(pointer, row, unit, inside, COUNT: tl.constexpr, WIDTH: tl.constexpr, UNITS: tl.constexpr):
    """COUNT tiles that lie side by side in a matrix of WIDTH blocks."""
    place = row[:, None] * (WIDTH * UNITS) + unit[None, :]
    found = ()
    for i in tl.static_range(COUNT):
        found = found + (tl.load(pointer + place + i * UNITS, mask=inside, other=0.0).to(tl.float32),)
    return found


INTERPRETED = tl.constexpr(not isinstance(_read, triton.JITFunction))


@triton.jit
def _write(pointer, row, unit, inside, values, WIDTH: tl.constexpr, UNITS: tl.constexpr):
    place = row[:, None] * (WIDTH * UNITS) + unit[None, :]
    for i in tl.static_range(len(values)):
        tl.store(pointer + place + i * UNITS, values[i].to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def _where(condition, values, others):
    found = ()
    for i in tl.static_range(len(values)):
        found = found + (tl.where(condition, values[i], others[i]),)
    return found


@triton.jit
def _cleared(condition, values):
    """Zero where not `condition`, whatever stood there."""
    found = ()
    for i in tl.static_range(len(values)):
        found = found + (tl.where(condition, values[i], 0.0),)
    return found


@triton.jit
def _matrix(weight, unit, place: tl.constexpr, PAD: tl.constexpr, TRANSPOSED: tl.constexpr):
    """One block of recurrent weights, (out, in), or transposed."""
    if TRANSPOSED:
        return tl.load(weight + place * PAD * PAD + unit[None, :] * PAD + unit[:, None])
    else:
        return tl.load(weight + place * PAD * PAD + unit[:, None] * PAD + unit[None, :])


@triton.jit
def _matrices(weight, unit, COUNT: tl.constexpr, PAD: tl.constexpr, TRANSPOSED: tl.constexpr):
    found = ()
    for i in tl.static_range(COUNT):
        found = found + (_matrix(weight, unit, i, PAD, TRANSPOSED),)
    return found


@triton.jit
def _product(operand, matrix, plus, PRECISION: tl.constexpr):
    """operand @ matrix + plus, operand rounded as the matrix is, summed in float32."""
    operand = operand.to(matrix.dtype)
    if INTERPRETED:  # it takes bfloat16 for integers
        return tl.dot(operand.to(tl.float32), matrix.to(tl.float32), plus)
    else:
        return tl.dot(operand, matrix, plus, input_precision=PRECISION)


@triton.jit
def _count(steps):
    if INTERPRETED:  # numpy 2.4 no longer takes an array of one number, the interpreter's scalar, for an integer
        return steps.handle.data.item()
    else:
        return steps


@triton.jit
def _while(condition, row, batch):
    """The rows of the batch while a scalar holds; `&` with it makes a mask of numbers in Triton 3.9's interpreter."""
    return row < tl.where(condition, batch, 0)


@triton.jit(do_not_specialize=["begin", "steps", "batch"])
def scan_forward(
    x,  # (steps, batch, INPUTS * UNITS), projected, or (steps, batch), one feature
    input_weight,  # (INPUTS, UNITS) where there is one feature
    weight,
    bias,  # (blocks, PAD), float32
    carry,  # (batch, STATES * UNITS)
    lengths,  # (batch)
    y,  # (1 + steps, batch, UNITS): before each step, and after the last
    tape,  # (steps, batch, TAPE * UNITS)
    begin,
    steps,
    batch,
    CELL: tl.constexpr,
    OPTION: tl.constexpr,
    STATES: tl.constexpr,
    INPUTS: tl.constexpr,
    PHASES: tl.constexpr,
    PHASE: tl.constexpr,
    WEIGHT: tl.constexpr,
    MATRICES: tl.constexpr,
    TAPE: tl.constexpr,  # 0: none is kept
    ONE_FEATURE: tl.constexpr,
    LENGTHS: tl.constexpr,
    RESIDENT: tl.constexpr,
    PRECISION: tl.constexpr,
    UNITS: tl.constexpr,
    PAD: tl.constexpr,
    ROWS: tl.constexpr,
):
    """`steps` time steps; writes y, the tape and the states."""
    row, unit = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, PAD)
    inside = (row < batch)[:, None] & (unit < UNITS)[None, :]
    state = _read(carry, row, unit, inside, STATES, STATES, UNITS)
    if RESIDENT:
        matrices = _matrices(weight, unit, MATRICES, PAD, True)
    if ONE_FEATURE:
        by_feature = _read(input_weight, 0 * row, unit, inside, INPUTS, INPUTS, UNITS)
        ahead = (tl.load(x + row, mask=row < batch, other=0.0).to(tl.float32),)
    else:
        ahead = _read(x, row, unit, inside, INPUTS, INPUTS, UNITS)
    if LENGTHS:
        left = tl.load(lengths + row, mask=row < batch, other=0) - begin
    for t in range(_count(steps)):
        given, old, now, a = ahead, state, state, ()
        more = _while(t + 1 < steps, row, batch)
        if ONE_FEATURE:
            x += batch
            ahead = (tl.load(x + row, mask=more, other=0.0).to(tl.float32),)
        else:
            x += batch * INPUTS * UNITS
            ahead = _read(x, row, unit, inside & more[:, None], INPUTS, INPUTS, UNITS)
        kept_at = tape
        for phase in tl.static_range(PHASES):
            operand = now[0]
            for b in tl.static_range(len(PHASE)):
                if PHASE[b] == phase:
                    s = tl.zeros([ROWS, PAD], tl.float32) + tl.load(bias + b * PAD + unit)[None, :]
                    if b < INPUTS:
                        if ONE_FEATURE:
                            s += given[0][:, None] * by_feature[b]
                        else:
                            s += given[b]
                    if WEIGHT[b] >= 0:
                        if RESIDENT:
                            s = _product(operand, matrices[WEIGHT[b]], s, PRECISION)
                        else:
                            s = _product(operand, _matrix(weight, unit, WEIGHT[b], PAD, True), s, PRECISION)
                    a = a + (s,)
            now, kept = CELL(phase, a, old, now, OPTION)
            if UNITS < PAD:  # a product of infinity and the padding's zeros is NaN
                now = _cleared(unit[None, :] < UNITS, now)
            if TAPE > 0:
                _write(kept_at, row, unit, inside, kept, TAPE, UNITS)
                kept_at += len(kept) * UNITS
        if LENGTHS:
            now = _where((t < left)[:, None], now, old)
        state = now
        y += batch * UNITS
        _write(y, row, unit, inside, (state[0],), 1, UNITS)
        tape += batch * TAPE * UNITS
    _write(carry, row, unit, inside, state, STATES, UNITS)


@triton.jit(do_not_specialize=["begin", "steps", "batch", "truncate"])
def scan_backward(
    weight,
    carry,  # (batch, STATES * UNITS), gradients of the states
    lengths,  # (batch)
    y,  # (1 + steps, batch, UNITS)
    tape,  # (steps, batch, TAPE * UNITS)
    y_gradient,  # (steps, batch, UNITS)
    gradient,  # (steps, batch, blocks * UNITS): of the pre-activations, written
    begin,
    steps,
    batch,
    truncate,
    CELL: tl.constexpr,
    OPTION: tl.constexpr,
    STATES: tl.constexpr,
    PHASES: tl.constexpr,
    PHASE: tl.constexpr,
    FIRST: tl.constexpr,
    WEIGHT: tl.constexpr,
    MATRICES: tl.constexpr,
    TAPE: tl.constexpr,
    TAPE_PER_PHASE: tl.constexpr,
    LENGTHS: tl.constexpr,
    TRUNCATE: tl.constexpr,
    Y_GRADIENT: tl.constexpr,
    RESIDENT: tl.constexpr,
    PRECISION: tl.constexpr,
    UNITS: tl.constexpr,
    PAD: tl.constexpr,
    ROWS: tl.constexpr,
):
    """The same steps from the last to the first; writes the gradients of the pre-activations and of the states."""
    BLOCKS: tl.constexpr = len(PHASE)
    AHEAD: tl.constexpr = 0 if TAPE_PER_PHASE else TAPE
    row, unit = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, PAD)
    inside = (row < batch)[:, None] & (unit < UNITS)[None, :]
    g = _read(carry, row, unit, inside, STATES, STATES, UNITS)
    if RESIDENT:
        matrices = _matrices(weight, unit, MATRICES, PAD, False)
    if LENGTHS:
        left = tl.load(lengths + row, mask=row < batch, other=0) - begin
    last = (steps - 1).to(tl.int64) * batch * UNITS
    y += last
    tape += last * TAPE
    y_gradient += last
    gradient += last * BLOCKS
    new = _read(y + batch * UNITS, row, unit, inside, 1, 1, UNITS)
    old_ahead = _read(y, row, unit, inside, 1, 1, UNITS)
    kept_ahead = _read(tape, row, unit, inside, AHEAD, TAPE, UNITS)
    if Y_GRADIENT:
        g_ahead = _read(y_gradient, row, unit, inside, 1, 1, UNITS)
    for back in range(_count(steps)):
        t = steps - 1 - back
        kept, old = kept_ahead, old_ahead
        if Y_GRADIENT:
            g = (g[0] + g_ahead[0],) + g[1:]
        more = inside & _while(t > 0, row, batch)[:, None]
        tape_now = tape
        y -= batch * UNITS
        tape -= batch * TAPE * UNITS
        old_ahead = _read(y, row, unit, more, 1, 1, UNITS)
        kept_ahead = _read(tape, row, unit, more, AHEAD, TAPE, UNITS)
        if Y_GRADIENT:
            y_gradient -= batch * UNITS
            g_ahead = _read(y_gradient, row, unit, more, 1, 1, UNITS)
        top = g
        for phase in tl.static_range(PHASES - 1, -1, -1):
            if TAPE_PER_PHASE:
                kept = _read(
                    tape_now + phase * (TAPE // PHASES) * UNITS, row, unit, inside, TAPE // PHASES, TAPE, UNITS
                )
            da, g = CELL(phase, g, top, old[0], new[0], kept, OPTION)
            if LENGTHS:
                da = _cleared((t < left)[:, None], da)
            if UNITS < PAD:
                da = _cleared(unit[None, :] < UNITS, da)
            sum = g[0]
            _write(gradient + FIRST[phase] * UNITS, row, unit, inside, da, BLOCKS, UNITS)
            for b in tl.static_range(len(PHASE)):
                if PHASE[b] == phase:
                    if WEIGHT[b] >= 0:
                        if RESIDENT:
                            sum = _product(da[b - FIRST[phase]], matrices[WEIGHT[b]], sum, PRECISION)
                        else:
                            sum = _product(
                                da[b - FIRST[phase]], _matrix(weight, unit, WEIGHT[b], PAD, False), sum, PRECISION
                            )
            g = (sum,) + g[1:]
            if UNITS < PAD:
                g = _cleared(unit[None, :] < UNITS, g)
        if LENGTHS:
            g = _where((t < left)[:, None], g, top)
        if TRUNCATE:
            whole = (begin + t == 0) | ((begin + t) % truncate != 0)
            g = _cleared(whole, g)
        new = old
        gradient -= batch * BLOCKS * UNITS
    _write(carry, row, unit, inside, g, STATES, UNITS)
