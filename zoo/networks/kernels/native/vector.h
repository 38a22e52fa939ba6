// Vectors of floats as wide as the instruction set this file is compiled for, and the functions of a gate.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, bits{__VA_ARGS__})
#endif

#if defined(__AVX512F__)
#include <immintrin.h>
constexpr int LANES = 16, PANEL = 4;  // PANEL vectors times ROWS accumulators, plus operands, fill the registers
#elif defined(__AVX2__)
constexpr int LANES = 8, PANEL = 2;
#else
constexpr int LANES = 4, PANEL = 2;
#endif
constexpr int ROWS = 6;

typedef float vec __attribute__((vector_size(LANES * 4), may_alias));
typedef int32_t bits __attribute__((vector_size(LANES * 4), may_alias));
typedef uint32_t unsigned_bits __attribute__((vector_size(LANES * 4), may_alias));

static inline long padded(long n) { return (n + LANES - 1) / LANES * LANES; }

static inline vec& at(float* p) { return *reinterpret_cast<vec*>(p); }
static inline const vec& at(const float* p) { return *reinterpret_cast<const vec*>(p); }

// Swaps halves of two rows of 2 D by 2 D blocks: the lanes of a whose number has bit D with the lanes of b whose number lacks
// it.
template <int D, class V, int... I>
static inline void exchange(V& a, V& b, std::integer_sequence<int, I...>) {
    const V kept = a;
    a = SHUFFLE(kept, b, ((I & D) ? LANES + I - D : I)...);
    b = SHUFFLE(kept, b, ((I & D) ? LANES + I : I + D)...);
}

template <int D, class V>
static inline void exchange(V& a, V& b) {
    exchange<D>(a, b, std::make_integer_sequence<int, LANES>());
}

// x to the nearest bfloat16, of two as near the even one.
static inline vec rounded(vec x) {
    const unsigned_bits u = (unsigned_bits)x, up = u + 0x7fff + ((u >> 16) & 1);
    return (vec)((x == x ? up : u | 0x400000) & ~0xffffu);  // NaN stays NaN
}

// x within the bounds; NaN, which no comparison holds for, stays NaN.
static inline vec clamped(vec x, float low, float high) {
    const vec bottom = low - vec{}, top = high - vec{};
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_min_ps(-1, (__m512)top, _mm512_maskz_max_ps(-1, (__m512)bottom, (__m512)x));  // of NaN they return the second
#else
    x = x < bottom ? bottom : x;
    return x > top ? top : x;
#endif
}

// 1 / x for |x| in [1, 1e38], to within rounding.
static inline vec reciprocal(vec x) {
#if defined(__AVX512F__)
    vec r = (vec)_mm512_maskz_rcp14_ps(-1, (__m512)x);  // an estimate and a Newton step, not a slow division
    return r + r * (1.0f - x * r);
#else
    return 1.0f / x;
#endif
}

// e^x = 2^n e^r, |r| <= log(2) / 2; a polynomial for e^r and the exponent's bits for 2^n.
static inline vec exponential(vec x) {
    const float shifter = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
    x = clamped(x, -87.0f, 87.0f);
    vec n = x * 1.44269504f + shifter;
    bits exponent = ((bits)n << 23) + 0x3f800000;
    n -= shifter;
    vec r = x - n * 0.693359375f;
    r += n * 2.12194440e-4f;
    vec p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (vec)exponent;
}

// The square root of x >= 0.
static inline vec root(vec x) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_sqrt_ps(-1, (__m512)x);
#else
    for (int k = 0; k < LANES; k++) x[k] = __builtin_sqrtf(x[k]);
    return x;
#endif
}

// log(1 + x) for x in [0, 1]: 2 atanh(x / (2 + x)) by its series.
static inline vec log_of_1_plus(vec x) {
    const vec z = x * reciprocal(2.0f + x), y = z * z;
    vec p = y * (1.0f / 13) + 1.0f / 11;
    p = p * y + 1.0f / 9;
    p = p * y + 1.0f / 7;
    p = p * y + 1.0f / 5;
    p = p * y + 1.0f / 3;
    return 2.0f * z * (p * y + 1.0f);
}

static inline vec sigmoid(vec x) { return reciprocal(1.0f + exponential(-x)); }

// x P(x^2) / Q(x^2), fitted to tanh in relative error; beyond 9.02 tanh is 1 in float32.
static inline vec tanh(vec x) {
    x = clamped(x, -9.02f, 9.02f);
    const vec y = x * x;
    vec p = y * 1.331908983104313e-08f + 2.0583494915626943e-05f;
    p = p * y + 0.003494035452604294f;
    p = p * y + 0.13379718363285065f;
    p = p * y + 1.0f;
    vec q = y * 7.762026825730572e-07f + 0.0003283094265498221f;
    q = q * y + 0.025871075689792633f;
    q = q * y + 0.4671303331851959f;
    q = q * y + 1.0f;
    return clamped(x * p * reciprocal(q), -1.0f, 1.0f);
}

static inline vec relu(vec x) { return x < vec{} ? vec{} : x; }

// The gradient y of relu where it gave x.
static inline vec past_relu(vec x, vec y) { return x <= vec{} ? vec{} : y; }
