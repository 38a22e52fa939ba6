// The pointwise part of relatives of the LSTM, as cells.h describes it.
#pragma once

#include "linear.h"

template <class Output>
struct RAN {  // tape: i, f, the input's block, the old c
    static constexpr int states = 2, tape = 4;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec i = sigmoid(p.a(0)), f = sigmoid(p.a(1)), x = p.a(2);
        p.keep(0, i), p.keep(1, f), p.keep(2, x), p.keep(3, p.old(1));
        p.now(1) = f * p.old(1) + i * x;
        p.now() = Output::value(p.now(1));
    }
    static void backward(int, const Point& p) {
        const vec i = p.kept(0), f = p.kept(1), x = p.kept(2), c = p.kept(3), g = p.g(1) + p.g() * Output::slope(p.h());
        p.a(0) = g * x * i * (1.0f - i);
        p.a(1) = g * c * f * (1.0f - f);
        p.a(2) = g * i;
        p.g(1) = g * f;
        p.g() = vec{};
    }
};

template <bool logistic>
struct OriginalLSTM {  // option: the factor of z, the squashed candidate; tape: i, z, o, the old c
    static constexpr int states = 2, tape = 4;
    static constexpr bool tape_per_phase = false;
    static vec squash(vec a) { return tanh(logistic ? 0.5f * a : a); }
    static vec slope(vec y) { return (logistic ? 0.5f : 1.0f) * (1.0f - y * y); }
    static void forward(int, const Point& p) {
        const vec i = sigmoid(p.a(0)), z = squash(p.a(1)), o = sigmoid(p.a(2));
        p.keep(0, i), p.keep(1, z), p.keep(2, o), p.keep(3, p.old(1));
        p.now(1) = p.old(1) + i * p.option * z;
        p.now() = o * squash(p.now(1));
    }
    static void backward(int, const Point& p) {
        const vec i = p.kept(0), z = p.kept(1), o = p.kept(2), t = squash(p.kept(3) + i * p.option * z);
        const vec g = p.g(1) + p.g() * o * slope(t);
        p.a(0) = g * p.option * z * i * (1.0f - i);
        p.a(1) = g * p.option * i * slope(z);
        p.a(2) = p.g() * t * o * (1.0f - o);
        p.g(1) = g;
        p.g() = vec{};
    }
};

// An LSTM of m in the place of h. Blocks: the inputs of i, f, z, o and m, the product of m, those of the four. Phase 0 makes
// m, phase 1 the new states. Tape: as of the LSTM, then the factors of m.
struct MultiplicativeLSTM {
    static constexpr int states = 2, tape = 7;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            p.keep(5, p.a(4)), p.keep(6, p.a(5));
            p.now() = p.a(4) * p.a(5);
        } else {
            for (int k = 0; k < 4; k++) p.a(k) += p.a(6 + k);
            LSTM::forward(phase, p);
        }
    }
    static void backward(int phase, const Point& p) {
        const vec x = p.kept(5), u = p.kept(6);
        if (phase == 1) {
            LSTM::backward(phase, p);
            for (int k = 0; k < 4; k++) p.a(6 + k) = p.a(k);
            p.operand_was() = x * u;
        } else {
            p.a(4) = p.g() * u;
            p.a(5) = p.g() * x;
            p.g() = vec{};
        }
    }
};
