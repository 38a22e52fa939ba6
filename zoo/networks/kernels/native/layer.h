// One layer's whole scan over time, forward and backward, for the dense cells of zoo.cells in float32, or with products of bfloat16.
//
// A sequence's states depend on no other sequence, so the batch is cut into groups of a few rows; a group runs through time
// in chunks that stay in the cache: first the input map of all the chunk's steps in one product, then step by step the
// recurrent products and the pointwise functions of cells.h. Backward goes the other way, and adds up the gradients of
// the weights chunk by chunk, so that no gradient of a pre-activation ever reaches memory. Threads share nothing but the
// weights; their gradients are summed in a fixed order, so that a result does not depend on who finished first.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "cells.h"
#include "job.h"
#include "product.h"
#include "threads.h"

namespace {

constexpr long CHUNK = 4 * GROUP;  // sequences times steps in a chunk
constexpr long FEW = 24;  // sequences times steps that do not repay packing the weights

// `rows` rows of n floats from one stride to another.
void copy(float* to, long to_row, const float* from, long from_row, long rows, long n) {
    if (to_row == n && from_row == n) n *= rows, rows = 1;
    for (long r = 0; r < rows; r++) memcpy(to + r * to_row, from + r * from_row, n * sizeof(float));
}

void add(float* to, const float* from, long n) {
    for (long i = 0; i < n; i++) to[i] += from[i];
}

// A job, and the sizes that follow from it.
struct Layer {
    const Job& job;
    const CellRow& cell = *job.cell;
    const long units = job.units, pad = padded(units), gates = job.blocks * pad;
    const long inputs = job.inputs, input_pad = padded(inputs), input_gates = job.input_blocks * pad;
    const long states = cell.states, tape_row = cell.tape * (cell.tape_per_phase ? job.phases : 1) * pad;

    const Product& product(long i) const { return job.product[i]; }
    long chunk(long rows) const { return std::min<long>(job.steps, std::max(1L, CHUNK / rows)); }
    bool ended(long t, long row) const { return job.lengths && t >= job.lengths[row]; }
    float* tape(long t, long row) const { return job.tape ? job.tape + (t * job.batch + row) * tape_row : nullptr; }
    float* y(long t, long row) const { return job.y + (t * job.batch + row) * units; }
    const float* x(long t, long row) const {
        return job.x + (job.rows ? job.rows[t * job.batch + row] * job.x_row : t * job.x_step + row * job.x_row);
    }
    // The inputs of `rows` sequences at a step.
    void read(float* to, long to_row, long t, long first, long rows) const {
        if (!job.rows) return copy(to, to_row, x(t, first), job.x_row, rows, inputs);
        for (long r = 0; r < rows; r++) memcpy(to + r * to_row, x(t, first + r), inputs * sizeof(float));
    }
};

// The weights as right factors of the products to come: packed here, or transposed by the caller. Without either, few rows
// read them as they lie in memory.
class Weights {
    std::vector<Packed> packed;

  public:
    std::vector<Right> input, recurrent;

    Weights() = default;
    Weights(const Job& job, bool transposed) {
        packed.reserve(1 + job.products);
        auto factor = [&](const float* weight, long blocks, long inputs) -> Right {
            if (job.transposed) return {weight, inputs, blocks * padded(job.units), false, false};
            packed.emplace_back(weight, blocks, job.units, inputs, transposed, job.half);
            return packed.back();
        };
        input.push_back(factor(job.weight, job.input_blocks, job.inputs));
        for (long i = 0; i < job.products; i++) recurrent.push_back(factor(job.product[i].weight, job.product[i].blocks, job.units));
    }
    bool ready() const { return !input.empty(); }
};

// The vector of a job, with padded units.
Buffer vector_of(const Layer& layer) {
    Buffer vector(layer.pad);
    if (layer.job.vector) copy(vector, layer.pad, layer.job.vector, layer.units, 1, layer.units);
    return vector;
}

// What every pre-activation starts from: its bias, or zero.
Buffer biases(const Layer& layer) {
    Buffer row(layer.gates);
    if (layer.job.bias) copy(row, layer.pad, layer.job.bias, layer.units, layer.job.input_blocks, layer.units);
    for (long i = 0; i < layer.job.products; i++) {
        const Product& p = layer.product(i);
        for (long b = 0; p.bias && b < p.blocks; b++) add(row + (p.block + b) * layer.pad, p.bias + b * layer.units, layer.units);
    }
    return row;
}

void forward(const Layer& layer, const Weights& weights, float* bias, float* vector, long first, long rows) {
    const Job& job = layer.job;
    const long pad = layer.pad, gates = layer.gates, inputs = layer.inputs, chunk = layer.chunk(rows);
    const long many = chunk * rows;
    Buffer a(many * gates + 2 * layer.states * rows * pad + many * inputs);  // all vectors are aligned
    float *const states = a + many * gates, *const x = states + 2 * layer.states * rows * pad;
    Point p{};
    p.block = pad, p.option = float(job.option), p.vector = vector;
    float *old[STATES], *now[STATES];
    for (int i = 0; i < layer.states; i++) {
        old[i] = states + 2 * i * rows * pad, now[i] = old[i] + rows * pad;
        copy(old[i], pad, job.start[i] + first * layer.units, layer.units, rows, layer.units);
    }
    for (long begin = 0; begin < job.steps; begin += chunk) {
        const long n = std::min<long>(chunk, job.steps - begin);
        for (long t = 0; t < n; t++) layer.read(x + t * rows * inputs, inputs, begin + t, first, rows);
        const Out projected(a, gates, bias, 0);
        if (weights.ready())
            multiply(projected, n * rows, x, inputs, 1, weights.input[0]);
        else
            dots(projected, n * rows, x, inputs, job.weight, job.input_blocks, layer.units, inputs);
        for (long t = 0; t < n; t++) {
            float* const now_a = a + t * rows * gates;
            for (long phase = 0; phase < job.phases; phase++) {
                const float* operand = phase ? now[0] : old[0];
                for (long i = 0; i < job.products; i++) {
                    const Product& q = layer.product(i);
                    if (q.phase != phase) continue;
                    float* const to = now_a + q.block * pad;
                    const Out sum = q.block < job.input_blocks ? Out(to, gates) : Out(to, gates, bias + q.block * pad, 0);
                    if (weights.ready())
                        multiply(sum, rows, operand, pad, 1, weights.recurrent[i]);
                    else
                        dots(sum, rows, operand, pad, q.weight, q.blocks, layer.units, layer.units);
                }
                for (long r = 0; r < rows; r++) {
                    p.gates = now_a + r * gates, p.tape = layer.tape(begin + t, first + r);
                    for (int i = 0; i < layer.states; i++) p.before[i] = old[i] + r * pad, p.after[i] = now[i] + r * pad;
                    layer.cell.forward(phase, p, pad);
                }
            }
            for (long r = 0; r < rows; r++)
                for (int i = 0; i < layer.states && layer.ended(begin + t, first + r); i++)
                    memcpy(now[i] + r * pad, old[i] + r * pad, pad * sizeof(float));
            copy(layer.y(begin + t, first), layer.units, now[0], pad, rows, layer.units);
            for (int i = 0; i < layer.states; i++) std::swap(old[i], now[i]);
        }
    }
    for (int i = 0; i < layer.states; i++)
        copy(job.end[i] + first * layer.units, layer.units, old[i], pad, rows, layer.units);
}

// Gradients of the weights, one thread's share, with padded units and inputs.
struct Gradients {
    Buffer input, bias;
    std::vector<Buffer> recurrent;

        explicit Gradients(const Layer& layer) : input(layer.input_gates * layer.input_pad), bias(layer.gates) {
        for (long i = 0; i < layer.job.products; i++) recurrent.emplace_back(layer.product(i).blocks * layer.pad * layer.pad);
    }
};

void backward(const Layer& layer, const Weights& weights, Gradients& sum, float* vector, long first, long rows) {
    const Job& job = layer.job;
    const long pad = layer.pad, gates = layer.gates, units = layer.units, chunk = layer.chunk(rows);
    const long input_pad = layer.input_pad, many = chunk * rows;
    // h holds, for every step of the chunk, the state before it, and at the end the state after the last
    Buffer x(many * input_pad), h((many + rows) * pad), a(many * gates), x_gradient(many * input_pad), zeros(input_pad);
    Buffer states(layer.states * rows * pad), early(rows * pad), operands(std::max<long>(1, job.phases - 1) * many * pad), bias(gates);
    Point p{};
    p.block = pad, p.option = float(job.option), p.vector = vector;
    float* g[STATES];
    for (int i = 0; i < layer.states; i++) {
        g[i] = states + i * rows * pad;
        if (job.end_gradient[i]) copy(g[i], pad, job.end_gradient[i] + first * units, units, rows, units);
    }
    for (long begin = (job.steps - 1) / chunk * chunk; begin >= 0; begin -= chunk) {
        const long n = std::min<long>(chunk, job.steps - begin);
        for (long t = 0; t < n; t++) layer.read(x + t * rows * input_pad, input_pad, begin + t, first, rows);
        for (long t = 0; t <= n; t++) {
            const float* from = begin + t ? layer.y(begin + t - 1, first) : job.start[0] + first * units;
            copy(h + t * rows * pad, pad, from, units, rows, units);
        }
        for (long t = n - 1; t >= 0; t--) {
            float* const now_a = a + t * rows * gates;
            if (job.y_gradient)
                for (long r = 0; r < rows; r++) add(g[0] + r * pad, job.y_gradient + ((begin + t) * job.batch + first + r) * units, units);
            for (long phase = job.phases - 1; phase >= 0; phase--) {
                for (long r = 0; r < rows; r++) {
                    p.gates = now_a + r * gates;
                    if (layer.ended(begin + t, first + r)) {
                        memset(p.gates, 0, gates * sizeof(float));
                        continue;
                    }
                    p.tape = layer.tape(begin + t, first + r);
                    p.before[0] = h + (t * rows + r) * pad, p.result = h + ((t + 1) * rows + r) * pad;
                    p.early = early + r * pad, p.operand = operands + ((std::max(0L, phase - 1) * chunk + t) * rows + r) * pad;
                    for (int i = 0; i < layer.states; i++) p.after[i] = g[i] + r * pad;
                    layer.cell.backward(phase, p, pad);
                    if (pad > units) for (long b = 0; b < job.blocks; b++)  // NaN there would reach the units through the products
                        memset(p.gates + b * pad + units, 0, (pad - units) * sizeof(float));
                }
                for (long i = 0; i < job.products; i++) {
                    const Product& q = layer.product(i);
                    if (q.phase == phase) multiply(Out(g[0], pad), rows, now_a + q.block * pad, gates, 1, weights.recurrent[i]);
                }
            }
            add(g[0], early, rows * pad);
            if (job.tbptt_steps && begin + t && (begin + t) % job.tbptt_steps == 0) memset(states, 0, layer.states * rows * pad * sizeof(float));
        }
        if (job.x_gradient) {
            multiply(Out(x_gradient, input_pad, zeros, 0), n * rows, a, gates, 1, weights.input[0]);
            for (long t = 0; t < n; t++)
                copy(job.x_gradient + ((begin + t) * job.batch + first) * layer.inputs, layer.inputs, x_gradient + t * rows * input_pad, input_pad, rows, layer.inputs);
        }
        if (job.weight_gradient) {
            multiply(Out(sum.input, input_pad), layer.input_gates, a, 1, gates, Right{x, n * rows, input_pad, false, bool(job.half)});
            for (long i = 0; i < job.products; i++) {
                const Product& q = layer.product(i);
                const float* operand = q.phase ? operands + (q.phase - 1) * many * pad : h;
                multiply(Out(sum.recurrent[i], pad), q.blocks * pad, a + q.block * pad, 1, gates, Right{operand, n * rows, pad, false, bool(job.half)});
            }
            memset(bias, 0, gates * sizeof(float));  // summed by chunks, since one long sum would round more
            for (long r = 0; r < n * rows; r++) add(bias, a + r * gates, gates);
            add(sum.bias, bias, gates);
        }
    }
    for (int i = 0; i < layer.states; i++)
        if (job.start_gradient[i]) copy(job.start_gradient[i] + first * units, units, g[i], pad, rows, units);
}

long threads(const Job& job) {
    const double work = double(job.steps) * job.batch * job.blocks * job.units * (job.units + job.inputs);
    return std::max(1L, std::min({long(job.threads), long(job.batch), long(work / LEAST)}));
}

void run_forward(const Job& job) {
    const Layer layer{job};
    const bool few = job.steps * job.batch < FEW && !job.half && !job.transposed;  // dots() rounds nothing
    const Weights weights = few ? Weights() : Weights(job, true);
    Buffer bias = biases(layer), vector = vector_of(layer);
    share(job.batch, job.half, threads(job), [&](long, long first, long rows) { forward(layer, weights, bias, vector, first, rows); });
}

void run_backward(const Job& job) {
    const Layer layer{job};
    const Weights weights(job, false);
    const long count = threads(job), units = job.units, pad = layer.pad;
    Buffer vector = vector_of(layer);
    std::vector<Gradients> sums;
    for (long i = 0; i < count; i++) sums.emplace_back(layer);
    share(job.batch, job.half, count, [&](long thread, long first, long rows) { backward(layer, weights, sums[thread], vector, first, rows); });
    if (!job.weight_gradient) return;
    for (long i = 1; i < count; i++) {
        add(sums[0].input, sums[i].input, layer.input_gates * layer.input_pad);
        add(sums[0].bias, sums[i].bias, layer.gates);
        for (long q = 0; q < job.products; q++)
            add(sums[0].recurrent[q], sums[i].recurrent[q], layer.product(q).blocks * pad * pad);
    }
    for (long b = 0; b < job.input_blocks; b++)
        copy(job.weight_gradient + b * units * job.inputs, job.inputs, sums[0].input + b * pad * layer.input_pad, layer.input_pad, units, job.inputs);
    if (job.bias_gradient) copy(job.bias_gradient, units, sums[0].bias, pad, job.input_blocks, units);
    if (job.vector_gradient) copy(job.vector_gradient, units, sums[0].bias + (job.blocks - 1) * pad, pad, 1, units);
    for (long i = 0; i < job.products; i++) {
        const Product& q = layer.product(i);
        for (long b = 0; b < q.blocks; b++)
            copy(q.weight_gradient + b * units * units, units, sums[0].recurrent[i] + b * pad * pad, pad, units, units);
        if (q.bias_gradient) copy(q.bias_gradient, units, sums[0].bias + q.block * pad, pad, q.blocks, units);
    }
}

}  // namespace
