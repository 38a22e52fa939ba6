// What the scan of one layer reads and writes. zoo/networks/kernels/interface.py describes a Job and a Product field by field.
#pragma once

#include <cstdint>

struct Product {
    const float *weight, *bias;  // (blocks * units, units); (blocks * units), or null
    float *weight_gradient, *bias_gradient;
    int64_t phase, block, blocks;  // before which phase it is computed; the pre-activations it is added to
};

struct CellRow;

constexpr int STATES = 4;  // of a cell, at most

struct Job {
    const CellRow* cell;  // from rnnzoo_cell
    double option;
    int64_t steps, batch, inputs, units, input_blocks, blocks, phases, products, threads;
    int64_t half;  // whether the operands of matrix products are rounded to bfloat16; sums and all else are of float32
    const float* x;  // (steps, batch, inputs), a step and a row this many floats apart, the features of a row together
    int64_t x_step, x_row;
    const int64_t* rows;  // (steps, batch), which row of x to read, or null: x has one for every step and sequence
    const float *weight, *bias;  // of the input map: (input_blocks * units, inputs); (input_blocks * units), or null
    int64_t transposed;  // whether all weights lie as (inputs, blocks * padded units) instead, for a forward pass in float32
    const Product* product;
    const float* vector;  // (units), a number of each unit that the pointwise functions take; null for most cells
    const int64_t* lengths;  // (batch), or null
    int64_t tbptt_steps;  // cut the gradient through time every so many steps; 0: never
    const float* start[STATES];  // (batch, units) each
    float* y;  // (steps, batch, units)
    float* end[STATES];  // (batch, units) each
    float* tape;  // (steps, batch, tape * padded units), or null where no gradient is wanted
    // Backward only. The gradient of an input may be null where it is not wanted, that of an output where it is zero.
    const float *y_gradient, *end_gradient[STATES];
    float *x_gradient, *weight_gradient, *bias_gradient, *vector_gradient, *start_gradient[STATES];
};
