// The scan that all cells share whose state is a matrix of keys by values, forward and backward: an old state S becomes
// diag(a) S + k v^T, or with the delta rule diag(a) S + k v^T + p (r^T S), and o = S^T q is read from the new state or the old.
// A row is one head of one sequence. Its state stays in the cache while the row runs through time. The backward pass computes
// the states again, from one that was kept every STRIDE steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "matrix.h"
#include "vector.h"

// zoo/networks/kernels/interface.py describes and compiled_outer.py fills in an Outer, field by field as here.
struct Outer {
    int64_t steps, rows, keys, values, threads;
    int64_t delta, reads_old;  // whether there are r and p; whether o is read before the update
    const float *q, *k, *a, *r, *p;  // (steps, rows, keys)
    const float* v;  // (steps, rows, values)
    const float* start;  // (rows, keys, values)
    const int64_t* lengths;  // (rows), or null; a row that has ended keeps its state, and its outputs are 0
    int64_t tbptt_steps;  // cut the gradient through time every so many steps; 0: never
    float *o, *end;  // as v; as start
    float* kept;  // (ceil(steps / STRIDE), rows, keys, values), or null where no gradient is wanted
    // Backward only.
    const float *o_gradient, *end_gradient;
    float *q_gradient, *k_gradient, *a_gradient, *r_gradient, *p_gradient, *v_gradient, *start_gradient;
};

namespace {

constexpr long STRIDE = 16;  // states of this many steps stay in the second-level cache

static inline float sum(vec x) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#else
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
#endif
}

// One row of an Outer. Its values and its states' lines are padded with zeros to whole vectors.
class Head {
    const Outer& d;
    const long row, width;  // of a line of a state, in floats
    Buffer v, out, given;

    long keys_at(long t) const { return (t * d.rows + row) * d.keys; }
    long values_at(long t) const { return (t * d.rows + row) * d.values; }
    long state_at(long t) const { return (t * d.rows + row) * d.keys * d.values; }

  public:
    const long size;  // of a padded state

    Head(const Outer& d, long row)
        : d(d), row(row), width(padded(d.values)), v(width), out(width), given(width), size(d.keys * padded(d.values)) {}

    long end() const { return d.lengths ? std::min<int64_t>(std::max<int64_t>(d.lengths[row], 0), d.steps) : d.steps; }

    void load(float* S, const float* from) const {
        for (long i = 0; i < d.keys; i++) memcpy(S + i * width, from + i * d.values, d.values * sizeof(float));
    }
    void store(float* to, const float* S) const {
        for (long i = 0; i < d.keys; i++) memcpy(to + i * d.values, S + i * width, d.values * sizeof(float));
    }
    void load_state(float* S, const float* of_all, long t = 0) const { load(S, of_all + state_at(t)); }
    void store_state(float* of_all, const float* S, long t = 0) const { store(of_all + state_at(t), S); }

    // N vectors of every line of a state, from column j on: their part of `step`.
    template <bool Delta, bool Old, int N>
    void columns(long j, const float* q, const float* k, const float* a, const float* r, const float* p, const float* S, float* now) {
        vec value[N], recalled[N]{}, read[N]{};
        for (int n = 0; n < N; n++) value[n] = at(v + j + n * LANES);
        if (Delta)
            for (long i = 0; i < d.keys; i++)
                for (int n = 0; n < N; n++) recalled[n] += r[i] * at(S + i * width + j + n * LANES);
        for (long i = 0; i < d.keys; i++)
            for (int n = 0; n < N; n++) {
                const long place = i * width + j + n * LANES;
                const vec old = at(S + place);
                vec fresh = a[i] * old + k[i] * value[n];
                if (Delta) fresh += p[i] * recalled[n];
                at(now + place) = fresh;
                read[n] += q[i] * (Old ? old : fresh);
            }
        for (int n = 0; n < N; n++) at(out + j + n * LANES) = read[n];
    }

    // The state after step t, from that before it; they may be one. With `o`, also the output.
    template <bool Delta, bool Old>
    void step(long t, const float* S, float* now, float* o) {
        const float *q = d.q + keys_at(t), *k = d.k + keys_at(t), *a = d.a + keys_at(t);
        const float *r = Delta ? d.r + keys_at(t) : nullptr, *p = Delta ? d.p + keys_at(t) : nullptr;
        memcpy(v, d.v + values_at(t), d.values * sizeof(float));
        long j = 0;
        for (; j + 4 * LANES <= width; j += 4 * LANES) columns<Delta, Old, 4>(j, q, k, a, r, p, S, now);
        for (; j < width; j += LANES) columns<Delta, Old, 1>(j, q, k, a, r, p, S, now);
        if (o) memcpy(o + values_at(t), out, d.values * sizeof(float));
    }

    // N vectors of every line of a state, from column j on: their part of `step_back`.
    template <bool Delta, bool Old, int N>
    void columns_back(long key, long j, const float* S, const float* now, float* G) {
        const float *q = d.q + key, *k = d.k + key, *a = d.a + key, *r = Delta ? d.r + key : nullptr, *p = Delta ? d.p + key : nullptr;
        const auto add = [&](float* gradient, long i, vec part) { gradient[key + i] = sum(part) + (j ? gradient[key + i] : 0.0f); };
        vec value[N], output[N], recalled[N]{}, by_v[N]{}, by_u[N]{};
        for (int n = 0; n < N; n++) value[n] = at(v + j + n * LANES), output[n] = at(given + j + n * LANES);
        if (Delta)
            for (long i = 0; i < d.keys; i++)
                for (int n = 0; n < N; n++) recalled[n] += r[i] * at(S + i * width + j + n * LANES);
        for (long i = 0; i < d.keys; i++) {
            vec by_q{}, by_k{}, by_a{}, by_p{};
            for (int n = 0; n < N; n++) {
                const long place = i * width + j + n * LANES;
                const vec old = at(S + place), from_output = q[i] * output[n];
                vec g = at(G + place);
                if (!Old) g += from_output;
                by_q += output[n] * (Old ? old : at(now + place));
                by_k += g * value[n], by_v[n] += k[i] * g;
                by_a += g * old;
                if (Delta) by_p += g * recalled[n], by_u[n] += p[i] * g;
                g *= a[i];
                if (Old) g += from_output;
                at(G + place) = g;
            }
            add(d.q_gradient, i, by_q), add(d.k_gradient, i, by_k), add(d.a_gradient, i, by_a);
            if (Delta) add(d.p_gradient, i, by_p);
        }
        for (int n = 0; n < N; n++) at(out + j + n * LANES) = by_v[n];
        if (!Delta) return;
        for (long i = 0; i < d.keys; i++) {
            vec by_r{};
            for (int n = 0; n < N; n++) {
                const long place = i * width + j + n * LANES;
                by_r += by_u[n] * at(S + place);
                at(G + place) += r[i] * by_u[n];
            }
            add(d.r_gradient, i, by_r);
        }
    }

    // From G, the gradient by the state after step t but for its own output, to that before it, and the gradients by the
    // operands of step t. S: the state before it. now: that after it.
    template <bool Delta, bool Old>
    void step_back(long t, const float* S, const float* now, float* G) {
        memcpy(v, d.v + values_at(t), d.values * sizeof(float));
        memcpy(given, d.o_gradient + values_at(t), d.values * sizeof(float));
        long j = 0;
        for (; j + 4 * LANES <= width; j += 4 * LANES) columns_back<Delta, Old, 4>(keys_at(t), j, S, now, G);
        for (; j < width; j += LANES) columns_back<Delta, Old, 1>(keys_at(t), j, S, now, G);
        memcpy(d.v_gradient + values_at(t), out, d.values * sizeof(float));
    }
};

template <bool Delta, bool Old>
void outer_forward(const Outer& d, long first, long rows) {
    for (long row = first; row < first + rows; row++) {
        Head head(d, row);
        Buffer S(head.size);
        head.load_state(S, d.start);
        const long end = head.end();
        for (long t = 0; t < d.steps; t++) {
            if (d.kept && t % STRIDE == 0) head.store_state(d.kept, S, t / STRIDE);
            if (t < end)
                head.template step<Delta, Old>(t, S, S, d.o);
            else
                memset(d.o + (t * d.rows + row) * d.values, 0, d.values * sizeof(float));
        }
        head.store_state(d.end, S);
    }
}

template <bool Delta, bool Old>
void outer_backward(const Outer& d, long first, long rows) {
    for (long row = first; row < first + rows; row++) {
        Head head(d, row);
        const long size = head.size, end = head.end();
        Buffer G(size), S((STRIDE + 1) * size);  // the states before and after each of STRIDE steps
        head.load_state(G, d.end_gradient);
        for (long begin = (d.steps - 1) / STRIDE * STRIDE; begin >= 0; begin -= STRIDE) {
            const long stop = std::min(begin + STRIDE, long(d.steps));
            head.load_state(S, d.kept, begin / STRIDE);
            for (long t = begin; t < std::min(stop, end); t++)
                head.template step<Delta, Old>(t, S + (t - begin) * size, S + (t + 1 - begin) * size, nullptr);
            for (long t = stop - 1; t >= begin; t--) {
                if (t < end)
                    head.template step_back<Delta, Old>(t, S + (t - begin) * size, S + (t + 1 - begin) * size, G);
                else {
                    const long key = (t * d.rows + row) * d.keys;
                    for (float* by : {d.q_gradient, d.k_gradient, d.a_gradient, d.r_gradient, d.p_gradient})
                        if (by) memset(by + key, 0, d.keys * sizeof(float));
                    memset(d.v_gradient + (t * d.rows + row) * d.values, 0, d.values * sizeof(float));
                }
                if (d.tbptt_steps && t && t % d.tbptt_steps == 0) memset(G, 0, size * sizeof(float));
            }
        }
        head.store_state(d.start_gradient, G);
    }
}

// Calls work(std::bool_constant<delta>, std::bool_constant<reads_old>) with those of d.
template <class Work>
void with_kind(const Outer& d, Work work) {
    constexpr std::true_type yes;
    constexpr std::false_type no;
    if (d.delta)
        d.reads_old ? work(yes, yes) : work(yes, no);
    else
        d.reads_old ? work(no, yes) : work(no, no);
}

}  // namespace
