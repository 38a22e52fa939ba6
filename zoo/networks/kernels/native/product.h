// Matrix products of blocks that stay in the cache.
#pragma once

#include "half.h"
#include "matrix.h"

// A tile of R rows and V vectors of out, kept in registers over the whole depth.
template <int R, int V>
static void tile(Out out, const float* a, long row, long step, const float* b, long width, long depth) {
    vec sum[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) sum[r][v] = at(out.first + r * out.first_row + v * LANES);
    for (long k = 0; k < depth; k++, a += step, b += width) {
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const vec x = a[r * row] - vec{};
#pragma GCC unroll 8
            for (int v = 0; v < V; v++) sum[r][v] += x * at(b + v * LANES);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) at(out.data + r * out.row + v * LANES) = sum[r][v];
}

template <int V>
static void tiles(long rows, Out out, const float* a, long row, long step, const float* b, long width, long depth) {
    const long count = (rows + ROWS - 1) / ROWS;
    for (long i = 0, done = 0; i < count; i++) {  // as even as can be: 5 + 5, not 6 + 4
        const long n = (rows - done + count - i - 1) / (count - i);
        const Out to = out.at(done, 0);
        const float* from = a + done * row;
        switch (n) {
            case 1: tile<1, V>(to, from, row, step, b, width, depth); break;
            case 2: tile<2, V>(to, from, row, step, b, width, depth); break;
            case 3: tile<3, V>(to, from, row, step, b, width, depth); break;
            case 4: tile<4, V>(to, from, row, step, b, width, depth); break;
            case 5: tile<5, V>(to, from, row, step, b, width, depth); break;
            default: tile<6, V>(to, from, row, step, b, width, depth);
        }
        done += n;
    }
}

// One row by a plain right factor: as many sums at once as hide the time that each addition takes.
static void multiply_row(Out out, const float* a, long step, Right b) {
    constexpr long WIDE = 8;
    for (long column = 0; column < b.columns; column += WIDE * LANES) {
        const Out to = out.at(0, column);
        const float* from = b.data + column;
        switch (std::min(WIDE, (b.columns - column) / LANES)) {
            case 1: tile<1, 1>(to, a, 0, step, from, b.columns, b.depth); break;
            case 2: tile<1, 2>(to, a, 0, step, from, b.columns, b.depth); break;
            case 3: tile<1, 3>(to, a, 0, step, from, b.columns, b.depth); break;
            case 4: tile<1, 4>(to, a, 0, step, from, b.columns, b.depth); break;
            case 5: tile<1, 5>(to, a, 0, step, from, b.columns, b.depth); break;
            case 6: tile<1, 6>(to, a, 0, step, from, b.columns, b.depth); break;
            case 7: tile<1, 7>(to, a, 0, step, from, b.columns, b.depth); break;
            default: tile<1, WIDE>(to, a, 0, step, from, b.columns, b.depth);
        }
    }
}

// out (rows, b.columns) = what it starts from + a (rows, b.depth) b; entry (r, k) of a is a[r * row + k * step].
static void multiply(Out out, long rows, const float* a, long row, long step, Right b) {
    if (b.half) {
        if (Halves::means() != Means::ROUNDING) return Halves::multiply(out, rows, a, row, step, b);
        const bool along = step == 1;  // whether the entries that lie together are those of a row
        const long many = along ? rows : b.depth, length = along ? b.depth : rows;
        Buffer left = rounded(a, along ? row : step, many, length), right = rounded(b.data, 0, 1, b.packed ? 0 : b.depth * b.columns);
        return multiply(out, rows, left, along ? length : 1, along ? 1 : length, {b.packed ? b.data : right, b.depth, b.columns, b.packed, false});
    }
    if (rows == 1 && !b.packed) return multiply_row(out, a, step, b);
    for (long column = 0; column < b.columns; column += PANEL * LANES) {
        const long width = std::min<long>(PANEL * LANES, b.columns - column);
        const float* panel = b.data + (b.packed ? column * b.depth : column);
        const long stride = b.packed ? width : b.columns;
        switch (width / LANES) {
            case 1: tiles<1>(rows, out.at(0, column), a, row, step, panel, stride, b.depth); break;
            case 2: tiles<2>(rows, out.at(0, column), a, row, step, panel, stride, b.depth); break;
            case 3: tiles<3>(rows, out.at(0, column), a, row, step, panel, stride, b.depth); break;
            default: tiles<PANEL>(rows, out.at(0, column), a, row, step, panel, stride, b.depth);
        }
    }
}

// A torch weight, (blocks * units, inputs), with every block padded to a multiple of LANES, packed as a right factor:
// transposed for x W^T, as it is for the gradient g W.
class Packed {
    Buffer memory;
    Right factor;

  public:
    Packed(const float* weight, long blocks, long units, long inputs, bool transposed, bool half)
        : memory(blocks * padded(units) * padded(inputs)),
          factor{memory, transposed ? inputs : blocks * padded(units), transposed ? blocks * padded(units) : padded(inputs), true, half} {
        const bool tiled = half && Halves::means() != Means::ROUNDING;
        const long pad = padded(units), panel = tiled ? factor.columns : PANEL * LANES;  // plain first, for Halves::tiled
        for (long g = 0; g < blocks; g++)
            for (long u = 0; u < units; u++)
                for (long i = 0; i < inputs; i++) {
                    const long out = g * pad + u;
                    const long k = transposed ? i : out, column = transposed ? out : i;
                    const long first = column / panel * panel, width = std::min(panel, factor.columns - first);
                    memory[first * factor.depth + k * width + column - first] = weight[(g * units + u) * inputs + i];
                }
        if (half) {
            memory = tiled ? Halves::tiled(factor) : rounded(memory, 0, 1, factor.depth * factor.columns);
            factor.data = memory;
        }
    }
    operator Right() const { return factor; }
};

// The sums of LANES vectors as one vector.
template <int D = 1>
static inline vec sums(vec* v) {
    if constexpr (D == LANES) {
        return v[0];
    } else {
        for (int i = 0; i < LANES / D / 2; i++) {
            exchange<D>(v[2 * i], v[2 * i + 1]);
            v[i] = v[2 * i] + v[2 * i + 1];
        }
        return sums<2 * D>(v);
    }
}

// The dot products of R rows of a, `row` apart, with N rows of a matrix, `inputs` apart, each still spread over a vector:
// that of row r with row j of the matrix in sum[r * LANES + j].
template <int R, int N>
static inline void dot(vec* sum, const float* a, long row, const float* w, long inputs) {
    vec part[R][N] = {};
    long k = 0;
    for (; k + LANES <= inputs; k += LANES) {
        vec x[R], s;
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) memcpy(&x[r], a + r * row + k, sizeof x[r]);
#pragma GCC unroll 8
        for (int j = 0; j < N; j++) {
            memcpy(&s, w + j * inputs + k, sizeof s);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) part[r][j] += s * x[r];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < N; j++) {
            sum[r * LANES + j] = part[r][j];
            for (long i = k; i < inputs; i++) sum[r * LANES + j][i - k] += w[j * inputs + i] * a[r * row + i];
        }
}

template <int R, int N>
static void dots(Out out, const float* a, long row, const float* weight, long blocks, long units, long inputs) {
    for (long g = 0; g < blocks; g++)
        for (long u = 0; u < units; u += LANES) {
            const float* w = weight + (g * units + u) * inputs;
            const long n = std::min<long>(LANES, units - u);
            vec sum[R * LANES] = {};
            long j = 0;
            for (; j + N <= n; j += N) dot<R, N>(sum + j, a, row, w + j * inputs, inputs);
            for (; j < n; j++) dot<R, 1>(sum + j, a, row, w + j * inputs, inputs);
            for (long r = 0; r < R; r++) {
                const Out to = out.at(r, g * padded(units) + u);
                at(to.data) = at(to.first) + sums(sum + r * LANES);
            }
        }
}

// multiply(out, rows, a, row, 1, W^T), blocks of units padded, for a torch weight as it lies in memory: for the few rows
// that do not repay packing. Three rows at a time read each weight once.
static void dots(Out out, long rows, const float* a, long row, const float* weight, long blocks, long units, long inputs) {
    long r = 0;
    for (; r + 3 <= rows; r += 3) dots<3, 4>(out.at(r, 0), a + r * row, row, weight, blocks, units, inputs);
    for (; r < rows; r++) dots<1, LANES < 8 ? 4 : 8>(out.at(r, 0), a + r * row, row, weight, blocks, units, inputs);
}
