// The pointwise part of cells with gates and one state, as in cells.h. LightRU is in linear.h, as a minGRU with a product.
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

struct MGU1 {  // blocks: the candidate's input, the gate's product, the candidate's; phases and tape as of the MGU
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        const vec f = sigmoid(p.a(1));
        if (phase == 0) {
            p.keep(0, f);
            p.now() = f * p.old();
        } else {
            const vec n = tanh(p.a(0) + p.a(2));
            p.keep(1, n);
            p.now() = p.old() + f * (n - p.old());
        }
    }
    static void backward(int phase, const Point& p) {
        const vec f = p.kept(0), n = p.kept(1);
        if (phase == 1) {
            p.a(0) = p.a(2) = p.g() * f * (1.0f - n * n);
            p.a(1) = p.g() * (n - p.old());
            p.early_g() = p.g() * (1.0f - f);
            p.operand_was() = f * p.old();
            p.g() = vec{};
        } else {
            p.a(1) = (p.a(1) + p.g() * p.old()) * f * (1.0f - f);
            p.g() = p.g() * f;
        }
    }
};

struct MinimalRNN {  // blocks: the input, the product of h, that of z; phase 0 makes z, phase 1 the new state; tape: u, z
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            p.keep(1, p.now() = tanh(p.a(0)));
        } else {
            const vec u = sigmoid(p.a(1) + p.a(2));
            p.keep(0, u);
            p.now() = p.now() + u * (p.old() - p.now());
        }
    }
    static void backward(int phase, const Point& p) {
        const vec u = p.kept(0), z = p.kept(1);
        if (phase == 1) {
            p.a(1) = p.a(2) = p.g() * (p.old() - z) * u * (1.0f - u);
            p.early_g() = p.g() * u;
            p.operand_was() = z;
            p.g() = p.g() * (1.0f - u);
        } else {
            p.a(0) = p.g() * (1.0f - z * z);
            p.g() = vec{};
        }
    }
};

struct SGRN {  // the product is block 1; tape: f, the input's block
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec x = p.a(0), f = sigmoid(x + p.a(1));
        p.keep(0, f), p.keep(1, x);
        p.now() = tanh(x + f * (p.old() - x));
    }
    static void backward(int, const Point& p) {
        const vec f = p.kept(0), x = p.kept(1), g = p.g() * (1.0f - p.h() * p.h());
        p.a(1) = g * (p.old() - x) * f * (1.0f - f);
        p.a(0) = g * (1.0f - f) + p.a(1);
        p.g() = g * f;
    }
};

struct MUT1 {  // the candidate's product is block 3; phase 0 makes r h, phase 1 the new state; tape: r, z, t, the candidate
    static constexpr int states = 1, tape = 4;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            const vec r = sigmoid(p.a(1));
            p.keep(0, r);
            p.now() = r * p.old();
        } else {
            const vec z = sigmoid(p.a(0)), t = tanh(p.a(2)), n = tanh(t + p.a(3));
            p.keep(1, z), p.keep(2, t), p.keep(3, n);
            p.now() = p.old() + z * (n - p.old());
        }
    }
    static void backward(int phase, const Point& p) {
        const vec r = p.kept(0);
        if (phase == 1) {
            const vec z = p.kept(1), t = p.kept(2), n = p.kept(3);
            p.a(0) = p.g() * (n - p.old()) * z * (1.0f - z);
            p.a(3) = p.g() * z * (1.0f - n * n);
            p.a(2) = p.a(3) * (1.0f - t * t);
            p.early_g() = p.g() * (1.0f - z);
            p.operand_was() = r * p.old();
            p.g() = vec{};
        } else {
            p.a(1) = p.g() * p.old() * r * (1.0f - r);
            p.g() = p.g() * r;
        }
    }
};

struct MiRU1 {  // option: the old state's weight; phase 0 makes r h, phase 1 the new state; tape: r, the candidate
    static constexpr int states = 1, tape = 2;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            const vec r = sigmoid(p.a(0));
            p.keep(0, r);
            p.now() = r * p.old();
        } else {
            const vec n = tanh(p.a(1));
            p.keep(1, n);
            p.now() = n + p.option * (p.old() - n);
        }
    }
    static void backward(int phase, const Point& p) {
        const vec r = p.kept(0), n = p.kept(1);
        if (phase == 1) {
            p.a(1) = p.g() * (1.0f - p.option) * (1.0f - n * n);
            p.early_g() = p.g() * p.option;
            p.operand_was() = r * p.old();
            p.g() = vec{};
        } else {
            p.a(0) = p.g() * p.old() * r * (1.0f - r);
            p.g() = p.g() * r;
        }
    }
};

// x / 5 + 1 / 2 is y; the gate is y cut off at 0 and 1.
static inline vec cut_off(vec y) { return 1.0f - relu(1.0f - relu(y)); }

struct SGU {  // the product of phase 1 is block 2; phase 0 makes g h, phase 1 the new state; tape: y of the gate, t, n, g
    static constexpr int states = 1, tape = 4;
    static constexpr bool tape_per_phase = false;
    static void forward(int phase, const Point& p) {
        if (phase == 0) {
            p.keep(3, p.a(1));
            p.now() = p.a(1) * p.old();
        } else {
            const vec y = 0.2f * p.a(0) + 0.5f, t = tanh(p.a(2)), q = t * p.old();
            const vec n = (q > vec{} ? q : vec{}) + log_of_1_plus(exponential(q > vec{} ? -q : q));
            p.keep(0, y), p.keep(1, t), p.keep(2, n);
            p.now() = p.old() + cut_off(y) * (n - p.old());
        }
    }
    static void backward(int phase, const Point& p) {
        const vec y = p.kept(0), t = p.kept(1), n = p.kept(2), x = p.kept(3);
        if (phase == 1) {
            const vec z = cut_off(y), gq = p.g() * z * sigmoid(t * p.old());
            p.a(0) = past_relu(y, past_relu(1.0f - y, 0.2f * p.g() * (n - p.old())));
            p.a(2) = gq * p.old() * (1.0f - t * t);
            p.early_g() = p.g() * (1.0f - z) + gq * t;
            p.operand_was() = x * p.old();
            p.g() = vec{};
        } else {
            p.a(1) = p.g() * p.old();
            p.g() = p.g() * x;
        }
    }
};

struct NBRC {  // tape: tanh of the feedback's pre-activation, c, the candidate
    static constexpr int states = 1, tape = 3;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec t = tanh(p.a(0)), c = sigmoid(p.a(1)), n = tanh(p.a(2) + (1.0f + t) * p.old());
        p.keep(0, t), p.keep(1, c), p.keep(2, n);
        p.now() = n + c * (p.old() - n);
    }
    static void backward(int, const Point& p) {
        const vec t = p.kept(0), c = p.kept(1), n = p.kept(2), gn = p.g() * (1.0f - c) * (1.0f - n * n);
        p.a(0) = gn * p.old() * (1.0f - t * t);
        p.a(1) = p.g() * (p.old() - n) * c * (1.0f - c);
        p.a(2) = gn;
        p.g() = p.g() * c + gn * (1.0f + t);
    }
};

struct CFN {  // tape: theta, eta, the tanh of the old state, that of the input
    static constexpr int states = 1, tape = 4;
    static constexpr bool tape_per_phase = false;
    static void forward(int, const Point& p) {
        const vec theta = sigmoid(p.a(0)), eta = sigmoid(p.a(1)), n = tanh(p.a(2)), t = tanh(p.old());
        p.keep(0, theta), p.keep(1, eta), p.keep(2, t), p.keep(3, n);
        p.now() = theta * t + eta * n;
    }
    static void backward(int, const Point& p) {
        const vec theta = p.kept(0), eta = p.kept(1), t = p.kept(2), n = p.kept(3);
        p.a(0) = p.g() * t * theta * (1.0f - theta);
        p.a(1) = p.g() * n * eta * (1.0f - eta);
        p.a(2) = p.g() * eta * (1.0f - n * n);
        p.g() = p.g() * theta * (1.0f - t * t);
    }
};
