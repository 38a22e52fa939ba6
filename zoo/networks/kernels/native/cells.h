// The pointwise part of each cell: what happens to LANES units of one sequence once the matrix products are there.
//
// A time step has one or more phases. Before a phase, the products of its operand (in the first phase the old h, later
// the result of the phase before) have been added to the pre-activations. `forward` turns pre-activations into the
// phase's result, `now(0)`, and keeps on the tape what `backward` needs; `backward` turns the gradient of the result,
// `g`, into those of the pre-activations, and leaves in `g` what reaches the operand other than through the products.
// Equations and gate order are those of zoo.cells; a derivative of tanh or sigmoid is written by its value.
#pragma once

#include "vector.h"

// One vector of units of one sequence: the rows it lies in, and its place in a block.
struct Point {
    float* gates;  // pre-activations, block after block; in backward their gradients
    float* tape;
    const float* before[4];  // the old states
    float* after[4];  // the new states; in backward their gradients
    const float* result;  // backward: the new h
    float* early;  // backward: gradient of the old h from a later phase
    float* operand;  // backward: the operand of a later phase, for the gradient of its weight
    const float* vector;  // a number of each unit
    long block, place;
    float option;

    vec& a(int i) const { return at(gates + i * block + place); }
    vec old(int state = 0) const { return at(before[state] + place); }
    vec& now(int state = 0) const { return at(after[state] + place); }
    vec& g(int state = 0) const { return at(after[state] + place); }
    void keep(int i, vec value) const {
        if (tape) at(tape + i * block + place) = value;
    }
    vec kept(int i) const { return at(tape + i * block + place); }
    vec number() const { return at(vector + place); }
    vec h() const { return at(result + place); }
    vec& early_g() const { return at(early + place); }
    vec& operand_was() const { return at(operand + place); }
};

// A cell: the number of its states, its functions, for one sequence's row of units each, and how many vectors its tape has.
struct CellRow {
    const char* name;
    int states;
    void (*forward)(int phase, const Point& row, long units);
    void (*backward)(int phase, const Point& row, long units);
    int tape;
    bool tape_per_phase;
};

template <class Cell>
constexpr CellRow row(const char* name) {
    return {
        name, Cell::states,
        [](int phase, const Point& row, long units) {
            Point p = row;  // a copy, which the compiler keeps in registers
            for (p.place = 0; p.place < units; p.place += LANES) Cell::forward(phase, p);
        },
        [](int phase, const Point& row, long units) {
            Point p = row;
            for (p.place = 0; p.place < units; p.place += LANES) Cell::backward(phase, p);
        },
        Cell::tape, Cell::tape_per_phase,
    };
}

struct TanhRNN {
    static constexpr int states = 1, tape = 0;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) { p.now() = tanh(p.a(0)); }
    static void backward(int, const Point& p) {
        p.a(0) = p.g() * (1.0f - p.h() * p.h());
        p.g() = vec{};
    }
};

struct ReLURNN {
    static constexpr int states = 1, tape = 0;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) { p.now() = relu(p.a(0)); }
    static void backward(int, const Point& p) {
        p.a(0) = past_relu(p.h(), p.g());
        p.g() = vec{};
    }
};

struct RIN {
    static constexpr int states = 1, tape = 0;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) { p.now() = relu(p.a(0) + p.old()); }
    static void backward(int, const Point& p) { p.a(0) = p.g() = past_relu(p.h(), p.g()); }
};

struct RINDT {  // tape: the result of the first transition
    static constexpr int states = 1, tape = 1;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0)
            p.keep(0, p.now() = relu(p.a(0) + p.old()));
        else
            p.now() = relu(p.a(1) + p.now());
    }
    static void backward(int phase, const Point& p) {
        p.a(phase) = p.g() = past_relu(phase ? p.h() : p.kept(0), p.g());
        if (phase) p.operand_was() = p.kept(0);
    }
};

struct Antisymmetric {  // option: epsilon; tape: what it multiplies
    static constexpr int states = 1, tape = 1;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec n = tanh(p.a(0));
        p.keep(0, n);
        p.now() = p.old() + p.option * n;
    }
    static void backward(int, const Point& p) {
        const vec n = p.kept(0);
        p.a(0) = p.option * p.g() * (1.0f - n * n);
    }
};

struct GatedAntisymmetric {  // option: epsilon; the product, which both share, is block 2; tape: z, the candidate
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec z = sigmoid(p.a(0) + p.a(2)), n = tanh(p.a(1) + p.a(2));
        p.keep(0, z), p.keep(1, n);
        p.now() = p.old() + p.option * z * n;
    }
    static void backward(int, const Point& p) {
        const vec z = p.kept(0), n = p.kept(1), g = p.option * p.g() * z;
        p.a(0) = g * n * (1.0f - z);
        p.a(1) = g * (1.0f - n * n);
        p.a(2) = p.a(0) + p.a(1);
    }
};

struct STAR {  // tape: z, k
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec z = tanh(p.a(0)), k = sigmoid(p.a(1));
        p.keep(0, z), p.keep(1, k);
        p.now() = tanh(p.old() + k * (z - p.old()));
    }
    static void backward(int, const Point& p) {
        const vec z = p.kept(0), k = p.kept(1), g = p.g() * (1.0f - p.h() * p.h());
        p.a(0) = g * k * (1.0f - z * z);
        p.a(1) = g * (z - p.old()) * k * (1.0f - k);
        p.g() = g * (1.0f - k);
    }
};

struct ShiftedSTAR {  // tape: z, k, and j = sigmoid(a + shift), the candidate's own weight
    static constexpr int states = 1, tape = 3;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec z = tanh(p.a(0)), k = sigmoid(p.a(1)), j = sigmoid(p.a(1) + p.option);
        p.keep(0, z), p.keep(1, k), p.keep(2, j);
        p.now() = tanh((1.0f - k) * p.old() + j * z);
    }
    static void backward(int, const Point& p) {
        const vec z = p.kept(0), k = p.kept(1), j = p.kept(2), g = p.g() * (1.0f - p.h() * p.h());
        p.a(0) = g * j * (1.0f - z * z);
        p.a(1) = g * (z * j * (1.0f - j) - p.old() * k * (1.0f - k));
        p.g() = g * (1.0f - k);
    }
};

struct LSTM {  // tape: i, f, z, o, the old c
    static constexpr int states = 2, tape = 5;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec i = sigmoid(p.a(0)), f = sigmoid(p.a(1)), z = tanh(p.a(2)), o = sigmoid(p.a(3));
        p.keep(0, i), p.keep(1, f), p.keep(2, z), p.keep(3, o), p.keep(4, p.old(1));
        p.now(1) = f * p.old(1) + i * z;
        p.now() = o * tanh(p.now(1));
    }
    static void backward(int, const Point& p) {
        const vec i = p.kept(0), f = p.kept(1), z = p.kept(2), o = p.kept(3), c = p.kept(4);
        const vec t = tanh(f * c + i * z), g = p.g(1) + p.g() * o * (1.0f - t * t);
        p.a(0) = g * z * i * (1.0f - i);
        p.a(1) = g * c * f * (1.0f - f);
        p.a(2) = g * i * (1.0f - z * z);
        p.a(3) = p.g() * t * o * (1.0f - o);
        p.g(1) = g * f;
        p.g() = vec{};
    }
};

struct CoupledLSTM {  // tape: f, z, o, the old c
    static constexpr int states = 2, tape = 4;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec f = sigmoid(p.a(0)), z = tanh(p.a(1)), o = sigmoid(p.a(2));
        p.keep(0, f), p.keep(1, z), p.keep(2, o), p.keep(3, p.old(1));
        p.now(1) = z + f * (p.old(1) - z);
        p.now() = o * tanh(p.now(1));
    }
    static void backward(int, const Point& p) {
        const vec f = p.kept(0), z = p.kept(1), o = p.kept(2), c = p.kept(3);
        const vec t = tanh(z + f * (c - z)), g = p.g(1) + p.g() * o * (1.0f - t * t);
        p.a(0) = g * (c - z) * f * (1.0f - f);
        p.a(1) = g * (1.0f - f) * (1.0f - z * z);
        p.a(2) = p.g() * t * o * (1.0f - o);
        p.g(1) = g * f;
        p.g() = vec{};
    }
};

struct ForgetLSTM {  // tape: f, z
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec f = sigmoid(p.a(0)), z = tanh(p.a(1));
        p.keep(0, f), p.keep(1, z);
        p.now() = tanh(z + f * (p.old() - z));
    }
    static void backward(int, const Point& p) {
        const vec f = p.kept(0), z = p.kept(1), g = p.g() * (1.0f - p.h() * p.h());
        p.a(0) = g * (p.old() - z) * f * (1.0f - f);
        p.a(1) = g * (1.0f - f) * (1.0f - z * z);
        p.g() = g * f;
    }
};

struct GRU {  // r before the product: phase 0 makes r h, phase 1 the new state; tape: r, z, the candidate
    static constexpr int states = 1, tape = 3;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            const vec r = sigmoid(p.a(0));
            p.keep(0, r);
            p.now() = r * p.old();
        } else {
            const vec z = sigmoid(p.a(1)), n = tanh(p.a(2));
            p.keep(1, z), p.keep(2, n);
            p.now() = p.old() + z * (n - p.old());
        }
    }
    static void backward(int phase, const Point& p) {
        const vec r = p.kept(0);
        if (phase == 1) {
            const vec z = p.kept(1), n = p.kept(2);
            p.a(1) = p.g() * (n - p.old()) * z * (1.0f - z);
            p.a(2) = p.g() * z * (1.0f - n * n);
            p.early_g() = p.g() * (1.0f - z);
            p.operand_was() = r * p.old();
            p.g() = vec{};
        } else {
            p.a(0) = p.g() * p.old() * r * (1.0f - r);
            p.g() = p.g() * r;
        }
    }
};

struct GRUAfter {  // r after the product, which is block 3; tape: r, z, the candidate, the product
    static constexpr int states = 1, tape = 4;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec r = sigmoid(p.a(0)), z = sigmoid(p.a(1)), u = p.a(3), n = tanh(p.a(2) + r * u);
        p.keep(0, r), p.keep(1, z), p.keep(2, n), p.keep(3, u);
        p.now() = p.old() + z * (n - p.old());
    }
    static void backward(int, const Point& p) {
        const vec r = p.kept(0), z = p.kept(1), n = p.kept(2), g = p.g() * z * (1.0f - n * n);
        p.a(0) = g * p.kept(3) * r * (1.0f - r);
        p.a(1) = p.g() * (n - p.old()) * z * (1.0f - z);
        p.a(2) = g;
        p.a(3) = g * r;
        p.g() = p.g() * (1.0f - z);
    }
};

struct RHN {  // a phase a micro-layer; tape of every phase: h, t, c, the operand
    static constexpr int states = 1, tape = 4;
    static constexpr bool tape_per_phase = true;
    static void forward(int phase, const Point& p) {
        const vec s = phase ? vec(p.now()) : p.old(), h = tanh(p.a(3 * phase));
        const vec t = sigmoid(p.a(3 * phase + 1)), c = sigmoid(p.a(3 * phase + 2));
        p.keep(4 * phase, h), p.keep(4 * phase + 1, t), p.keep(4 * phase + 2, c), p.keep(4 * phase + 3, s);
        p.now() = h * t + s * c;
    }
    static void backward(int phase, const Point& p) {
        const vec h = p.kept(4 * phase), t = p.kept(4 * phase + 1), c = p.kept(4 * phase + 2), s = p.kept(4 * phase + 3);
        p.a(3 * phase) = p.g() * t * (1.0f - h * h);
        p.a(3 * phase + 1) = p.g() * h * t * (1.0f - t);
        p.a(3 * phase + 2) = p.g() * s * c * (1.0f - c);
        if (phase) p.operand_was() = s;
        p.g() = p.g() * c;
    }
};
