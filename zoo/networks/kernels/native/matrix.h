// Matrices in memory, and what a product does with them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "vector.h"

// Memory aligned for vectors, zero at first.
class Buffer {
    std::vector<float> memory;
    float* start;

  public:
    explicit Buffer(long n) : memory(n + 16) {
        start = memory.data() + (-(reinterpret_cast<uintptr_t>(memory.data()) / 4) & 15);
    }
    Buffer(Buffer&&) = default;
    Buffer& operator=(Buffer&&) = default;
    Buffer(const Buffer&) = delete;
    operator float*() { return start; }
};

// The right factor, (depth, columns), columns a multiple of LANES. Packed, it is cut into panels of PANEL vectors, one
// after the other, each read from end to end, or, for products of halves by instructions of their own, into the tiles of half.h;
// plain, it is row-major.
struct Right {
    const float* data;
    long depth, columns;
    bool packed, half;  // half: the entries of both factors are rounded to bfloat16; their products are summed in float32
};

// A matrix to write, and what its rows start from: itself, to add to it, or (first_row = 0) the same row for all.
struct Out {
    float* data;
    long row;
    const float* first;
    long first_row;

    Out(float* d, long r) : Out(d, r, d, r) {}
    Out(float* d, long r, const float* f, long fr) : data(d), row(r), first(f), first_row(fr) {}
    Out at(long r, long column) const { return {data + r * row + column, row, first + r * first_row + column, first_row}; }
};
