// The pointwise part of cells with one gate, as in cells.h: UGRNN (and GILR) and LiGRU, JANET, ATR, MGU.
#pragma once

#include "cells.h"

template <bool rectified>
struct OneGate {  // tape: g, the candidate
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec g = sigmoid(p.a(0)), n = rectified ? relu(p.a(1)) : tanh(p.a(1));
        p.keep(0, g), p.keep(1, n);
        p.now() = n + g * (p.old() - n);
    }
    static void backward(int, const Point& p) {
        const vec g = p.kept(0), n = p.kept(1), gn = p.g() * (1.0f - g);
        p.a(0) = p.g() * (p.old() - n) * g * (1.0f - g);
        p.a(1) = rectified ? past_relu(n, gn) : gn * (1.0f - n * n);
        p.g() = p.g() * g;
    }
};

struct JANET {  // option: beta; tape: f, j = sigmoid(beta - a), the candidate
    static constexpr int states = 1, tape = 3;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec f = sigmoid(p.a(0)), j = sigmoid(p.option - p.a(0)), n = tanh(p.a(1));
        p.keep(0, f), p.keep(1, j), p.keep(2, n);
        p.now() = f * p.old() + j * n;
    }
    static void backward(int, const Point& p) {
        const vec f = p.kept(0), j = p.kept(1), n = p.kept(2);
        p.a(0) = p.g() * (p.old() * f * (1.0f - f) - n * j * (1.0f - j));
        p.a(1) = p.g() * j * (1.0f - n * n);
        p.g() = p.g() * f;
    }
};

struct ATR {  // the product is block 1; tape: i, f, the input's block
    static constexpr int states = 1, tape = 3;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec x = p.a(0), q = p.a(1), i = sigmoid(x + q), f = sigmoid(x - q);
        p.keep(0, i), p.keep(1, f), p.keep(2, x);
        p.now() = i * x + f * p.old();
    }
    static void backward(int, const Point& p) {
        const vec i = p.kept(0), f = p.kept(1), x = p.kept(2);
        const vec gi = p.g() * x * i * (1.0f - i), gf = p.g() * p.old() * f * (1.0f - f);
        p.a(0) = gi + gf + p.g() * i;
        p.a(1) = gi - gf;
        p.g() = p.g() * f;
    }
};

struct MGU {  // phase 0 makes f h, phase 1 the new state; tape: f, the candidate
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            const vec f = sigmoid(p.a(0));
            p.keep(0, f);
            p.now() = f * p.old();
        } else {
            const vec f = sigmoid(p.a(0)), n = tanh(p.a(1));
            p.keep(1, n);
            p.now() = p.old() + f * (n - p.old());
        }
    }
    static void backward(int phase, const Point& p) {
        const vec f = p.kept(0), n = p.kept(1);
        if (phase == 1) {
            p.a(0) = p.g() * (n - p.old());  // f as the candidate's weight; phase 0 adds f as a reset
            p.a(1) = p.g() * f * (1.0f - n * n);
            p.early_g() = p.g() * (1.0f - f);
            p.operand_was() = f * p.old();
            p.g() = vec{};
        } else {
            p.a(0) = (p.a(0) + p.g() * p.old()) * f * (1.0f - f);
            p.g() = p.g() * f;
        }
    }
};
