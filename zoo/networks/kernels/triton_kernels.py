"""The scans in Triton: one program takes a tile of the batch through all steps of a chunk of time, forward or backward.

The recurrent weights are read once and stay on the chip, as do the states. A step reads its projected input (backward: its
tape) while the step before is computed, and writes its output and tape (backward: gradients of the pre-activations). What
is carried from one chunk to the next lies in float32 in `carry`, which a call reads and overwrites.

The kernels' arguments come in this order:
- tensors read, then tensors written; a matrix of one step is (batch, blocks * UNITS), row after row;
- the chunk: `begin`, its first step; `steps`, how many it has; `batch`; backward, `tbptt_steps`;
- the cell: CELL, its function of triton_pointwise.py; OPTION, the number CELL takes; STATES, how many states it carries; INPUTS,
  blocks of the input projection; TAPE, blocks that a step writes for the backward pass;
- the products: FIRST, the first block of pre-activations of every phase, and the number of blocks (Triton 3.6 takes an entry of
  it for a constant only within tl.constexpr); WEIGHT, the place of every block's matrix in `weight`, or -1;
- how to run: RESIDENT, how many matrices stay on the chip, all or 0; PRECISION, of tl.dot;
- sizes: UNITS; PAD, units padded to what tl.dot takes; ROWS, sequences of a program.
"""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

import triton
import triton.language as tl


@triton.jit
def _read(pointer, row, unit, inside, COUNT: tl.constexpr, WIDTH: tl.constexpr, UNITS: tl.constexpr):
    """Return COUNT tiles that lie side by side in a matrix of WIDTH * UNITS columns, as float32.

    row, unit: the indices of a tile's rows and columns. inside: a mask; the tiles are 0 where it is False.
    """
    place = row[:, None] * (WIDTH * UNITS) + unit[None, :]
    tiles = ()
    for i in tl.static_range(COUNT):
        tiles = tiles + (tl.load(pointer + place + i * UNITS, mask=inside, other=0.0).to(tl.float32),)
    return tiles


@triton.jit
def _read_if_given(pointer, begin, row, unit, inside, UNITS: tl.constexpr):
    """Return a tuple with one tile, `begin` numbers after `pointer`; an empty tuple if `pointer` is None."""
    if pointer is not None:
        return _read(pointer + begin, row, unit, inside, 1, 1, UNITS)
    else:
        return ()


INTERPRETED = tl.constexpr(not isinstance(_read, triton.JITFunction))


@triton.jit
def _write(pointer, row, unit, inside, values, WIDTH: tl.constexpr, UNITS: tl.constexpr):
    """Write the tiles `values` side by side into a matrix of WIDTH * UNITS columns. row, unit, inside: as for `_read`."""
    place = row[:, None] * (WIDTH * UNITS) + unit[None, :]
    for i in tl.static_range(len(values)):
        tl.store(pointer + place + i * UNITS, values[i].to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def _where(condition, values, others):
    tiles = ()
    for i in tl.static_range(len(values)):
        tiles = tiles + (tl.where(condition, values[i], others[i]),)
    return tiles


@triton.jit
def _cleared(condition, values):
    """Return the tiles `values` with zeros where `condition` is False, also in place of NaN."""
    tiles = ()
    for i in tl.static_range(len(values)):
        tiles = tiles + (tl.where(condition, values[i], 0.0),)
    return tiles


@triton.jit
def _load_matrix(weight, unit, place: tl.constexpr, PAD: tl.constexpr, TRANSPOSED: tl.constexpr):
    """Return the matrix with index `place` among those of the recurrent weights, (out, in) or transposed."""
    if TRANSPOSED:
        return tl.load(weight + place * PAD * PAD + unit[None, :] * PAD + unit[:, None])
    else:
        return tl.load(weight + place * PAD * PAD + unit[:, None] * PAD + unit[None, :])


@triton.jit
def _load_matrices(weight, unit, COUNT: tl.constexpr, PAD: tl.constexpr, TRANSPOSED: tl.constexpr):
    blocks = ()
    for i in tl.static_range(COUNT):
        blocks = blocks + (_load_matrix(weight, unit, i, PAD, TRANSPOSED),)
    return blocks


@triton.jit
def _matrix(resident, weight, unit, place: tl.constexpr, PAD: tl.constexpr, TRANSPOSED: tl.constexpr):
    """Return the matrix with index `place`, from the tuple `resident` of matrices on the chip unless it is empty."""
    if len(resident) > 0:
        return resident[place]
    else:
        return _load_matrix(weight, unit, place, PAD, TRANSPOSED)


@triton.jit
def _product(operand, matrix, plus, PRECISION: tl.constexpr):
    """Return operand @ matrix + plus, with the operand rounded to the matrix's type, summed in float32."""
    operand = operand.to(matrix.dtype)
    if INTERPRETED:  # the interpreter takes bfloat16 for integers
        return tl.dot(operand.to(tl.float32), matrix.to(tl.float32), plus)
    else:
        return tl.dot(operand, matrix, plus, input_precision=PRECISION)


@triton.jit
def _count(steps):
    """Return `steps` in a form that can be the bound of a loop."""
    if INTERPRETED:  # its scalar is an array of one number, which numpy 2.4 no longer takes for an integer
        return steps.handle.data.item()
    else:
        return steps


@triton.jit
def _while(condition, row, batch):
    """Return the mask row < batch, all False if the scalar `condition` is; `&` with a scalar would give numbers in Triton
    3.9's interpreter."""
    return row < tl.where(condition, batch, 0)


@triton.jit(do_not_specialize=["begin", "steps", "batch"])
def scan_forward(
    x,  # (steps, batch, INPUTS * UNITS), projected; of one feature (steps, batch), as it is
    input_weight,  # (INPUTS, UNITS), read where there is one feature
    weight,  # (MATRICES, PAD, PAD), padded with zeros
    bias,  # (blocks, PAD), float32
    lengths,  # (batch), or None
    carry,  # (batch, STATES * UNITS), the states: read and written
    y,  # (1 + steps, batch, UNITS), h before each step and after the last: written from the second on
    tape,  # (steps, batch, TAPE * UNITS), written
    begin,
    steps,
    batch,
    CELL: tl.constexpr,
    OPTION: tl.constexpr,
    STATES: tl.constexpr,
    INPUTS: tl.constexpr,
    ONE_FEATURE: tl.constexpr,
    TAPE: tl.constexpr,  # 0: none is written
    FIRST: tl.constexpr,
    WEIGHT: tl.constexpr,
    RESIDENT: tl.constexpr,
    PRECISION: tl.constexpr,
    UNITS: tl.constexpr,
    PAD: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Run `steps` time steps; write y, the tape and the states."""
    PHASES: tl.constexpr = len(FIRST) - 1
    row, unit = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, PAD)
    inside = (row < batch)[:, None] & (unit < UNITS)[None, :]
    state = _read(carry, row, unit, inside, STATES, STATES, UNITS)
    resident = _load_matrices(weight, unit, RESIDENT, PAD, True)
    if ONE_FEATURE:
        by_feature = _read(input_weight, 0 * row, unit, inside, INPUTS, INPUTS, UNITS)
        x_next = (tl.load(x + row, mask=row < batch, other=0.0).to(tl.float32),)
    else:
        x_next = _read(x, row, unit, inside, INPUTS, INPUTS, UNITS)
    if lengths is not None:
        left = tl.load(lengths + row, mask=row < batch, other=0) - begin
    for t in range(_count(steps)):
        x_now, old, now, a = x_next, state, state, ()
        more = _while(t + 1 < steps, row, batch)
        if ONE_FEATURE:
            x += batch
            x_next = (tl.load(x + row, mask=more, other=0.0).to(tl.float32),)
        else:
            x += batch * INPUTS * UNITS
            x_next = _read(x, row, unit, inside & more[:, None], INPUTS, INPUTS, UNITS)
        kept_at = tape
        for phase in tl.static_range(PHASES):
            operand = now[0]
            for b in tl.static_range(tl.constexpr(FIRST[phase]), tl.constexpr(FIRST[phase + 1])):
                s = tl.zeros([ROWS, PAD], tl.float32) + tl.load(bias + b * PAD + unit)[None, :]
                if b < INPUTS:
                    if ONE_FEATURE:
                        s += x_now[0][:, None] * by_feature[b]
                    else:
                        s += x_now[b]
                if WEIGHT[b] >= 0:
                    s = _product(operand, _matrix(resident, weight, unit, WEIGHT[b], PAD, True), s, PRECISION)
                a = a + (s,)
            now, kept = CELL(phase, a, old, now, OPTION)
            if UNITS < PAD:  # a product of infinity and the padding's zeros is NaN
                now = _cleared(unit[None, :] < UNITS, now)
            if TAPE > 0:
                _write(kept_at, row, unit, inside, kept, TAPE, UNITS)
                kept_at += len(kept) * UNITS
        if lengths is not None:
            now = _where((t < left)[:, None], now, old)
        state = now
        y += batch * UNITS
        _write(y, row, unit, inside, (state[0],), 1, UNITS)
        tape += batch * TAPE * UNITS
    _write(carry, row, unit, inside, state, STATES, UNITS)


@triton.jit(do_not_specialize=["begin", "steps", "batch", "tbptt_steps"])
def scan_backward(
    weight,  # (MATRICES, PAD, PAD)
    lengths,  # (batch), or None
    y,  # (1 + steps, batch, UNITS)
    tape,  # (steps, batch, TAPE * UNITS)
    y_gradient,  # (steps, batch, UNITS), or None for zero
    carry,  # (batch, STATES * UNITS), gradients of the states: read and written
    gradient,  # (steps, batch, blocks * UNITS), of the pre-activations: written
    begin,
    steps,
    batch,
    tbptt_steps,  # the steps after which gradients are cut, or None
    CELL: tl.constexpr,
    OPTION: tl.constexpr,
    STATES: tl.constexpr,
    TAPE: tl.constexpr,
    TAPE_PER_PHASE: tl.constexpr,
    FIRST: tl.constexpr,
    WEIGHT: tl.constexpr,
    RESIDENT: tl.constexpr,
    PRECISION: tl.constexpr,
    UNITS: tl.constexpr,
    PAD: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Run the same steps from the last to the first; write the gradients of the pre-activations and of the states."""
    PHASES: tl.constexpr = len(FIRST) - 1
    BLOCKS: tl.constexpr = FIRST[PHASES]
    SHARE: tl.constexpr = TAPE // PHASES  # of one phase, where every phase reads its own
    AHEAD: tl.constexpr = 0 if TAPE_PER_PHASE else TAPE
    row, unit = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, PAD)
    inside = (row < batch)[:, None] & (unit < UNITS)[None, :]
    g = _read(carry, row, unit, inside, STATES, STATES, UNITS)
    resident = _load_matrices(weight, unit, RESIDENT, PAD, False)
    if lengths is not None:
        left = tl.load(lengths + row, mask=row < batch, other=0) - begin
    at = (steps - 1).to(tl.int64) * batch * UNITS  # where the step begins in a tensor of one block
    new = _read(y + at + batch * UNITS, row, unit, inside, 1, 1, UNITS)
    next_old = _read(y + at, row, unit, inside, 1, 1, UNITS)
    next_kept = _read(tape + at * TAPE, row, unit, inside, AHEAD, TAPE, UNITS)
    next_dy = _read_if_given(y_gradient, at, row, unit, inside, UNITS)
    for back in range(_count(steps)):
        t = steps - 1 - back

        # take what was read for this step, and read for the step before
        old, kept, dy = next_old, next_kept, next_dy
        more = inside & _while(t > 0, row, batch)[:, None]
        before = at - batch * UNITS
        next_old = _read(y + before, row, unit, more, 1, 1, UNITS)
        next_kept = _read(tape + before * TAPE, row, unit, more, AHEAD, TAPE, UNITS)
        next_dy = _read_if_given(y_gradient, before, row, unit, more, UNITS)

        # go back through the phases
        if y_gradient is not None:
            g = (g[0] + dy[0],) + g[1:]
        top = g
        for phase in tl.static_range(PHASES - 1, -1, -1):
            if TAPE_PER_PHASE:
                kept = _read(tape + at * TAPE + phase * SHARE * UNITS, row, unit, inside, SHARE, TAPE, UNITS)
            da, g = CELL(phase, g, top, old[0], new[0], kept, OPTION)
            if lengths is not None:
                da = _cleared((t < left)[:, None], da)
            if UNITS < PAD:
                da = _cleared(unit[None, :] < UNITS, da)
            _write(gradient + at * BLOCKS + FIRST[phase] * UNITS, row, unit, inside, da, BLOCKS, UNITS)
            by_operand = g[0]
            for b in tl.static_range(tl.constexpr(FIRST[phase]), tl.constexpr(FIRST[phase + 1])):
                if WEIGHT[b] >= 0:
                    matrix = _matrix(resident, weight, unit, WEIGHT[b], PAD, False)
                    by_operand = _product(da[b - FIRST[phase]], matrix, by_operand, PRECISION)
            g = (by_operand,) + g[1:]
            if UNITS < PAD:
                g = _cleared(unit[None, :] < UNITS, g)

        # a sequence that has ended passes its gradients on, and truncation cuts them
        if lengths is not None:
            g = _where((t < left)[:, None], g, top)
        if tbptt_steps is not None:
            g = _cleared((begin + t == 0) | ((begin + t) % tbptt_steps != 0), g)
        new, at = old, before
    _write(carry, row, unit, inside, g, STATES, UNITS)
