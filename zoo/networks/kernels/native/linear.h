// The pointwise part of the cells that are linear in their state, as cells.h describes it. They have no products. GILR is in gated.h.
#pragma once

#include "cells.h"

// A candidate's function, and its derivative by the value.
struct Linear {
    static vec value(vec a) { return a; }
    static vec slope(vec) { return 1.0f - vec{}; }
};

struct Tanh {
    static vec value(vec a) { return tanh(a); }
    static vec slope(vec y) { return 1.0f - y * y; }
};

struct Positive {  // a + 0.5 for a >= 0, else sigmoid(a)
    static vec value(vec a) { return a < vec{} ? sigmoid(a) : a + 0.5f; }
    static vec slope(vec y) { return y < 0.5f ? y * (1.0f - y) : 1.0f - vec{}; }
};

template <class Candidate>
struct MinGRU {  // tape: z, the candidate
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec z = sigmoid(p.a(0)), n = Candidate::value(p.a(1));
        p.keep(0, z), p.keep(1, n);
        p.now() = (1.0f - z) * p.old() + z * n;
    }
    static void backward(int, const Point& p) {
        const vec z = p.kept(0), n = p.kept(1);
        p.a(0) = p.g() * (n - p.old()) * z * (1.0f - z);
        p.a(1) = p.g() * z * Candidate::slope(n);
        p.g() = p.g() * (1.0f - z);
    }
};

constexpr float TINY_GATE = -60.0f, SCALE = 1e-20f;

template <class Candidate>
struct MinLSTM {  // tape: f, i, the candidate
    static constexpr int states = 1, tape = 3;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec n = Candidate::value(p.a(2)), k = sigmoid(p.a(0) - p.a(1));
        // f / (f + i) of gates that underflow is k: they are scaled, and their slopes by a(0) and a(1) stay 1
        const auto tiny = (p.a(0) < TINY_GATE) & (p.a(1) < TINY_GATE);
        const vec f = tiny ? SCALE * k : sigmoid(p.a(0)), i = tiny ? SCALE * (1.0f - k) : sigmoid(p.a(1));
        p.keep(0, f), p.keep(1, i), p.keep(2, n);
        p.now() = (f * p.old() + i * n) / (f + i);
    }
    static void backward(int, const Point& p) {
        const vec f = p.kept(0), i = p.kept(1), n = p.kept(2), k = f / (f + i);
        const vec g = p.g() * (p.old() - n) * k * (1.0f - k);  // by log(f / i)
        p.a(0) = g * (1.0f - f);
        p.a(1) = -g * (1.0f - i);
        p.a(2) = p.g() * (1.0f - k) * Candidate::slope(n);
        p.g() = p.g() * k;
    }
};

constexpr float LEAST_REST = 1e-12f;  // of 1 - a^2: the slope of its root at 0 is infinite

struct RGLRU {  // a = e^(r v), v the vector, whose gradient is block 3; tape: r, i, x, a, sqrt(1 - a^2)
    static constexpr int states = 1, tape = 5;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec r = sigmoid(p.a(0)), i = sigmoid(p.a(1)), x = p.a(2), log_a = r * p.number();
        const vec a = exponential(log_a), rest = -tanh(log_a) * (1.0f + a * a);  // 1 - a^2 without cancellation
        const vec s = root(rest < LEAST_REST ? LEAST_REST - vec{} : rest);
        p.keep(0, r), p.keep(1, i), p.keep(2, x), p.keep(3, a), p.keep(4, s);
        p.now() = a * p.old() + s * i * x;
    }
    static void backward(int, const Point& p) {
        const vec r = p.kept(0), i = p.kept(1), x = p.kept(2), a = p.kept(3), s = p.kept(4), g = p.g();
        const vec slope = s * s <= LEAST_REST * 1.001f ? vec{} : a * a / s;
        const vec by_log_a = g * (a * p.old() - slope * i * x);
        p.a(0) = by_log_a * p.number() * r * (1.0f - r);
        p.a(1) = g * s * x * i * (1.0f - i);
        p.a(2) = g * s * i;
        p.a(3) = by_log_a * r;
        p.g() = g * a;
    }
};

struct QRNN {  // tape: z, f, o, the old c
    static constexpr int states = 2, tape = 4;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec z = tanh(p.a(0)), f = sigmoid(p.a(1)), o = sigmoid(p.a(2));
        p.keep(0, z), p.keep(1, f), p.keep(2, o), p.keep(3, p.old(1));
        p.now(1) = z + f * (p.old(1) - z);
        p.now() = o * p.now(1);
    }
    static void backward(int, const Point& p) {
        const vec z = p.kept(0), f = p.kept(1), o = p.kept(2), c = p.kept(3), g = p.g(1) + p.g() * o;
        p.a(0) = g * (1.0f - f) * (1.0f - z * z);
        p.a(1) = g * (c - z) * f * (1.0f - f);
        p.a(2) = p.g() * (z + f * (c - z)) * o * (1.0f - o);
        p.g(1) = g * f;
        p.g() = vec{};
    }
};

template <class Activation>
struct SRU {  // tape: x, f, r, s, the old c
    static constexpr int states = 2, tape = 5;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec x = p.a(0), f = sigmoid(p.a(1)), r = sigmoid(p.a(2)), s = p.a(3);
        p.keep(0, x), p.keep(1, f), p.keep(2, r), p.keep(3, s), p.keep(4, p.old(1));
        p.now(1) = f * p.old(1) + (1.0f - f) * x;
        p.now() = r * Activation::value(p.now(1)) + (1.0f - r) * s;
    }
    static void backward(int, const Point& p) {
        const vec x = p.kept(0), f = p.kept(1), r = p.kept(2), s = p.kept(3), c = p.kept(4);
        const vec y = Activation::value(x + f * (c - x)), g = p.g(1) + p.g() * r * Activation::slope(y);
        p.a(0) = g * (1.0f - f);
        p.a(1) = g * (c - x) * f * (1.0f - f);
        p.a(2) = p.g() * (y - s) * r * (1.0f - r);
        p.a(3) = p.g() * (1.0f - r);
        p.g(1) = g * f;
        p.g() = vec{};
    }
};
