// The pointwise part of the sLSTM, as cells.h describes it.
#pragma once

#include "cells.h"

// A forget gate's logarithm, and its derivative by the pre-activation.
struct Sigmoid {
    static vec log(vec a) { return (a < vec{} ? a : vec{}) - log_of_1_plus(exponential(a < vec{} ? a : -a)); }
    static vec slope(vec a) { return sigmoid(-a); }
};

struct Exponential {
    static vec log(vec a) { return a; }
    static vec slope(vec) { return 1.0f - vec{}; }
};

template <class Forget>
struct SLSTM {  // tape: the scaled gates i and f, z, o, the derivative of log f, the old c and n
    static constexpr int states = 4, tape = 7;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec log_i = p.a(0), log_f = Forget::log(p.a(1)) + p.old(3), z = tanh(p.a(2)), o = sigmoid(p.a(3));
        const vec c = p.old(1), n = p.old(2), m = (n == vec{}) | (log_i > log_f) ? log_i : log_f;
        const vec i = exponential(log_i - m), f = exponential(log_f - m);
        p.keep(0, i), p.keep(1, f), p.keep(2, z), p.keep(3, o), p.keep(4, Forget::slope(p.a(1))), p.keep(5, c), p.keep(6, n);
        p.now(1) = f * c + i * z;
        p.now(2) = f * n + i;
        p.now(3) = m;
        p.now() = o * p.now(1) / p.now(2);
    }
    static void backward(int, const Point& p) {
        const vec i = p.kept(0), f = p.kept(1), z = p.kept(2), o = p.kept(3), c = p.kept(5), n = p.kept(6);
        const vec sum = f * n + i, mean = (f * c + i * z) / sum, g = p.g() * o / sum;
        const vec by_c = p.g(1) + g, by_n = p.g(2) - g * mean;
        vec by_i = (by_c * z + by_n) * i, by_f = (by_c * c + by_n * n) * f;
        const vec by_m = p.g(3) - by_i - by_f;
        const vec from_i = i == 1.0f - vec{} ? ((f == 1.0f - vec{}) & (n != vec{}) ? 0.5f - vec{} : 1.0f - vec{}) : vec{};
        by_i += from_i * by_m, by_f += (1.0f - from_i) * by_m;
        p.a(0) = by_i;
        p.a(1) = by_f * p.kept(4);
        p.a(2) = by_c * i * (1.0f - z * z);
        p.a(3) = p.g() * mean * o * (1.0f - o);
        p.g() = vec{};
        p.g(1) = by_c * f;
        p.g(2) = by_n * f;
        p.g(3) = by_f;
    }
};
