
#ifdef __wasm_simd128__
#define RNN_ADD(v) sum[v] = wasm_f32x4_add(sum[v], wasm_f32x4_mul(wasm_v128_load(p + 4 * v), a));
#endif

/* y += W x; w is W transposed: for each of the k entries of x the n weights by which it enters y. */
static RNN_APART void RNN_product(
    const float *RNN_RESTRICT w, const float *RNN_RESTRICT x, float *RNN_RESTRICT y, int k, int n) {
    int i, j = 0;
#ifdef __wasm_simd128__
    for (; n - j >= 32; j += 32) { /* 32 sums in registers */
        const float *p = w + j;
        v128_t sum[8];
        for (i = 0; i < 8; i++) sum[i] = wasm_v128_load(y + j + 4 * i);
        for (i = 0; i < k; i++, p += n) {
            const v128_t a = wasm_v128_load32_splat(x + i);
            RNN_ADD(0) RNN_ADD(1) RNN_ADD(2) RNN_ADD(3) RNN_ADD(4) RNN_ADD(5) RNN_ADD(6) RNN_ADD(7)
        }
        for (i = 0; i < 8; i++) wasm_v128_store(y + j + 4 * i, sum[i]);
    }
    if (j == n) return;
    {
        const int rest = n - j;
        for (w += j, y += j, j = 0; j < k; j++, w += n)
            for (i = 0; i < rest; i++) y[i] += w[i] * x[j];
    }
#else
    for (; j + 3 < k; j += 4, w += 4 * n) {
        const float a = x[j], b = x[j + 1], c = x[j + 2], d = x[j + 3];
        for (i = 0; i < n; i++) y[i] = y[i] + w[i] * a + w[n + i] * b + w[2 * n + i] * c + w[3 * n + i] * d;
    }
    for (; j < k; j++, w += n)
        for (i = 0; i < n; i++) y[i] += w[i] * x[j];
#endif
}
