// The scan that all cells linear in their state share, for coefficients of any origin: c_t = a_t * c_{t-1} + b_t, entry by
// entry, forward and backward. A row is the state of one sequence; a complex row holds its real parts, then its imaginary ones.
#pragma once

#include <cstdint>
#include <cstring>

// zoo/networks/kernels/interface.py describes and diagonal.py fills in a Diagonal, field by field as here.
struct Diagonal {
    int64_t steps, batch, width;  // floats in a row
    int64_t complex, threads;
    const float* a;  // a step and a row this many floats apart; 0 and 0: the same at every step
    int64_t a_step, a_row;
    const float* b;  // (steps, batch, width)
    const float* start;  // (batch, width)
    const int64_t* lengths;  // (batch), or null; a sequence that has ended keeps its state
    int64_t tbptt_steps;  // cut the gradient through time every so many steps; 0: never
    float* c;  // (steps, batch, width)
    // Backward only.
    const float* c_gradient;  // (steps, batch, width)
    float* a_gradient;  // as a; where a is the same at every step (threads, width), to be summed by the caller
    float *b_gradient, *start_gradient;
};

namespace {

template <bool Complex>
void diagonal_forward(const Diagonal& d, long first, long rows) {
    const long width = d.width, n = Complex ? width / 2 : width;
    for (long t = 0; t < d.steps; t++)
        for (long r = first; r < first + rows; r++) {
            const long place = (t * d.batch + r) * width;
            float* __restrict const c = d.c + place;
            const float* __restrict const old = t ? d.c + place - d.batch * width : d.start + r * width;
            if (d.lengths && t >= d.lengths[r]) {
                memcpy(c, old, width * sizeof(float));
                continue;
            }
            const float *__restrict const a = d.a + t * d.a_step + r * d.a_row, *__restrict const b = d.b + place;
            if (Complex)
                for (long k = 0; k < n; k++) {
                    c[k] = a[k] * old[k] - a[n + k] * old[n + k] + b[k];
                    c[n + k] = a[n + k] * old[k] + a[k] * old[n + k] + b[n + k];
                }
            else
                for (long k = 0; k < n; k++) c[k] = a[k] * old[k] + b[k];
        }
}

// `g`, (rows, width), is zero at the start and holds the gradient by the state after the present step.
template <bool Complex>
void diagonal_backward(const Diagonal& d, long thread, long first, long rows, float* g_rows) {
    const long width = d.width, n = Complex ? width / 2 : width;
    const bool constant = !d.a_step && !d.a_row;
    for (long t = d.steps - 1; t >= 0; t--)
        for (long r = first; r < first + rows; r++) {
            const long place = (t * d.batch + r) * width, at = t * d.a_step + r * d.a_row;
            float* __restrict const g = g_rows + (r - first) * width;
            float* __restrict const b_gradient = d.b_gradient + place;
            float* __restrict const a_gradient = d.a_gradient + (constant ? thread * width : at);
            const float *__restrict const given = d.c_gradient + place, *__restrict const a = d.a + at;
            const float* __restrict const old = t ? d.c + place - d.batch * width : d.start + r * width;
            const bool cut = d.tbptt_steps && t && t % d.tbptt_steps == 0;
            if (d.lengths && t >= d.lengths[r]) {
                for (long k = 0; k < width; k++) g[k] += given[k], b_gradient[k] = 0;
                if (!constant) memset(a_gradient, 0, width * sizeof(float));
            } else if (Complex) {
                for (long k = 0; k < n; k++) {
                    const float re = g[k] + given[k], im = g[n + k] + given[n + k];
                    const float a_re = re * old[k] + im * old[n + k], a_im = im * old[k] - re * old[n + k];
                    b_gradient[k] = re, b_gradient[n + k] = im;
                    a_gradient[k] = a_re + (constant ? a_gradient[k] : 0);
                    a_gradient[n + k] = a_im + (constant ? a_gradient[n + k] : 0);
                    g[k] = a[k] * re + a[n + k] * im;
                    g[n + k] = a[k] * im - a[n + k] * re;
                }
            } else
                for (long k = 0; k < n; k++) {
                    const float sum = g[k] + given[k];
                    b_gradient[k] = sum;
                    a_gradient[k] = sum * old[k] + (constant ? a_gradient[k] : 0);
                    g[k] = a[k] * sum;
                }
            if (cut) memset(g, 0, width * sizeof(float));
        }
    memcpy(d.start_gradient + first * width, g_rows, rows * width * sizeof(float));
}

}  // namespace
