// The pointwise part of cells that are steps of a differential equation, as cells.h describes it.
#pragma once

#include "cells.h"

struct Lipschitz {  // option: epsilon; blocks: the tanh's pre-activation, the drift; tape: the tanh
    static constexpr int states = 1, tape = 1;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec n = tanh(p.a(0));
        p.keep(0, n);
        p.now() = p.old() + p.option * (p.a(1) + n);
    }
    static void backward(int, const Point& p) {
        const vec n = p.kept(0);
        p.a(1) = p.option * p.g();
        p.a(0) = p.a(1) * (1.0f - n * n);
    }
};

struct LEM {  // option: dt; phase 0 makes z, phase 1 makes y; tape: the gates s and r, the candidates of z and y, the old z
    static constexpr int states = 2, tape = 5;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            const vec s = sigmoid(p.a(0)), n = tanh(p.a(2)), z = p.old(1);
            p.keep(0, s), p.keep(2, n), p.keep(4, z);
            p.now() = p.now(1) = z + p.option * s * (n - z);
        } else {
            const vec r = sigmoid(p.a(1)), n = tanh(p.a(3));
            p.keep(1, r), p.keep(3, n);
            p.now() = p.old() + p.option * r * (n - p.old());
        }
    }
    static void backward(int phase, const Point& p) {
        const vec s = p.kept(0), r = p.kept(1), z_candidate = p.kept(2), n = p.kept(3), z = p.kept(4);
        if (phase == 1) {
            const vec g = p.option * p.g();
            p.a(1) = g * (n - p.old()) * r * (1.0f - r);
            p.a(3) = g * r * (1.0f - n * n);
            p.early_g() = p.g() - g * r;
            p.operand_was() = z + p.option * s * (z_candidate - z);
            p.g() = vec{};
        } else {
            const vec sum = p.g() + p.g(1), g = p.option * sum;
            p.a(0) = g * (z_candidate - z) * s * (1.0f - s);
            p.a(2) = g * s * (1.0f - z_candidate * z_candidate);
            p.g(1) = sum - g * s;
            p.g() = vec{};
        }
    }
};

// Option: dt. Phase 0 makes the backbone v, phase 1 the new state. Blocks: the backbone's, then g, h and the two of the gate s.
// Tape: the backbone's tanh, g, h, s.
template <bool gated>
struct CfC {
    static constexpr int states = 1, tape = 4;
    static constexpr bool tape_per_phase = false;
    static constexpr float height = 1.7159f, width = 0.666f;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            const vec u = tanh(width * p.a(0));
            p.keep(0, u);
            p.now() = height * u;
        } else {
            const vec g = tanh(p.a(1)), h = tanh(p.a(2)), s = sigmoid(p.option * p.a(3) + p.a(4));
            p.keep(1, g), p.keep(2, h), p.keep(3, s);
            p.now() = g + s * (gated ? h - g : h);
        }
    }
    static void backward(int phase, const Point& p) {
        const vec u = p.kept(0);
        if (phase == 1) {
            const vec g = p.kept(1), h = p.kept(2), s = p.kept(3);
            p.a(1) = p.g() * (gated ? 1.0f - s : 1.0f - vec{}) * (1.0f - g * g);
            p.a(2) = p.g() * s * (1.0f - h * h);
            p.a(4) = p.g() * (gated ? h - g : h) * s * (1.0f - s);
            p.a(3) = p.option * p.a(4);
            p.operand_was() = height * u;
            p.g() = vec{};
        } else {
            p.a(0) = p.g() * (height * width) * (1.0f - u * u);
            p.g() = vec{};
        }
    }
};
