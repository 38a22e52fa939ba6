/* The functions of a step. Loops are plain C that compilers turn into vector instructions at -O3. */
#include <stdint.h>
#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#endif
#ifdef __wasm__
#define RNN_SQRT __builtin_sqrtf
#define RNN_FLOOR __builtin_floor
#else
#include <math.h>
#define RNN_SQRT sqrtf
#define RNN_FLOOR floor
#endif
#ifdef __cplusplus
#define RNN_RESTRICT __restrict
#else
#define RNN_RESTRICT restrict
#endif
#ifdef __GNUC__
#define RNN_APART __attribute__((noinline, unused))
#define RNN_ALIGNED __attribute__((aligned(64)))
#else
#define RNN_APART
#define RNN_ALIGNED
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3", "no-trapping-math", "no-math-errno", "fp-contract=fast") /* or comparisons stay scalar */
#endif

static inline float RNN_less(float a, float b) { return a < b ? 1.0f : 0.0f; }
static inline float RNN_least(float a, float b) { return ((a < b) | (a != a)) ? a : b; } /* the smaller, or NaN */
static inline float RNN_most(float a, float b) { return ((a > b) | (a != a)) ? a : b; }
static inline float RNN_is_nan(float x) { /* from the bits, since -ffast-math has no NaN */
    union { float number; uint32_t bits; } n;
    n.number = x;
    return (n.bits & 0x7fffffffu) > 0x7f800000u ? 1.0f : 0.0f;
}
static inline float RNN_relu(float x) { return x < 0.0f ? 0.0f : x; }

/* e^x = 2^n e^r, |r| <= log(2) / 2, for |x| <= 87: a polynomial for e^r and the exponent's bits for 2^n. */
static inline float RNN_exp(float x) {
    union { float number; uint32_t bits; } n, power;
    float r, p;
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    n.number = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: adding it leaves the rounded integer in the low bits */
    power.bits = (n.bits << 23) + 0x3f800000u;
#ifdef __wasm__ /* LLVM 14 would convert four integers one by one */
    n.number -= 12582912.0f;
#else /* from the bits, since -ffast-math and the x87 would undo a subtraction */
    n.number = (float)(int32_t)(n.bits - 0x4b400000u);
#endif
    r = x - n.number * 0.693359375f;
    r += n.number * 2.12194440e-4f;
    p = r * (1.0f / 5040.0f) + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * power.number;
}

static inline float RNN_sigmoid(float x) { return 1.0f / (1.0f + RNN_exp(-x)); }

/* x P(x^2) / Q(x^2), fitted to tanh in relative error; beyond 9.02 tanh is 1 in float32. */
static inline float RNN_tanh(float x) {
    float y, p, q;
    x = x < -9.02f ? -9.02f : x;
    x = x > 9.02f ? 9.02f : x;
    y = x * x;
    p = y * 1.331908983104313e-08f + 2.0583494915626943e-05f;
    p = p * y + 0.003494035452604294f;
    p = p * y + 0.13379718363285065f;
    p = p * y + 1.0f;
    q = y * 7.762026825730572e-07f + 0.0003283094265498221f;
    q = q * y + 0.025871075689792633f;
    q = q * y + 0.4671303331851959f;
    q = q * y + 1.0f;
    p = x * p / q;
    p = p < -1.0f ? -1.0f : p;
    return p > 1.0f ? 1.0f : p;
}

/* e^x - 1, exact near 0: tanh(x / 2) (e^x + 1). */
static inline float RNN_expm1(float x) { return RNN_tanh(0.5f * x) * (RNN_exp(x) + 1.0f); }

/* log(sigmoid(x)) = min(x, 0) - log(1 + u), u = e^-|x|; log(1 + u) = 2 artanh(u / (2 + u)), by its series. */
static inline float RNN_log_sigmoid(float x) {
    const float u = RNN_exp(x < 0.0f ? x : -x), a = u / (2.0f + u), y = a * a;
    float p = y * (1.0f / 15.0f) + 1.0f / 13.0f;
    p = p * y + 1.0f / 11.0f;
    p = p * y + 1.0f / 9.0f;
    p = p * y + 1.0f / 7.0f;
    p = p * y + 1.0f / 5.0f;
    p = p * y + 1.0f / 3.0f;
    p = p * y + 1.0f;
    return (x < 0.0f ? x : 0.0f) - 2.0f * a * p;
}

/* Within 1.5e-7, by Abramowitz & Stegun 7.1.26. */
static inline float RNN_erf(float x) {
    const float a = x < 0.0f ? -x : x, t = 1.0f / (1.0f + 0.3275911f * a);
    float p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    p = 1.0f - p * t * RNN_exp(-a * a);
    return x < 0.0f ? -p : p;
}

/* a - b floor(a / b); in double every step but the division is exact. */
static inline float RNN_remainder(float a, float b) {
    return (float)((double)a - (double)b * RNN_FLOOR((double)a / (double)b));
}

static inline float RNN_sum(const float *RNN_RESTRICT x, int n) {
    float total = 0.0f;
    int i;
    for (i = 0; i < n; i++) total += x[i];
    return total;
}

/* y = (x - mean(x)) / sqrt(var(x) + epsilon). */
static RNN_APART void RNN_normalise(const float *RNN_RESTRICT x, float *RNN_RESTRICT y, int n, float epsilon) {
    const float mean = RNN_sum(x, n) / (float)n;
    float variance = 0.0f, scale;
    int i;
    for (i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean);
    scale = 1.0f / RNN_SQRT(variance / (float)n + epsilon);
    for (i = 0; i < n; i++) y[i] = (x[i] - mean) * scale;
}

/* y = x / sqrt(mean(x^2) + epsilon). */
static RNN_APART void RNN_normalise_rms(const float *RNN_RESTRICT x, float *RNN_RESTRICT y, int n, float epsilon) {
    float square = 0.0f, scale;
    int i;
    for (i = 0; i < n; i++) square += x[i] * x[i];
    scale = 1.0f / RNN_SQRT(square / (float)n + epsilon);
    for (i = 0; i < n; i++) y[i] = x[i] * scale;
}
