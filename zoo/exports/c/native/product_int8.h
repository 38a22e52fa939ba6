
#ifdef __wasm_simd128__
/* An integer plus the bits of 1.5 * 2^23 is a float that much larger; LLVM 14 would convert four integers one by one. */
#define RNN_NUMBERS(four) wasm_f32x4_sub(wasm_i32x4_add(four, wasm_i32x4_splat(0x4b400000)), wasm_f32x4_splat(12582912.0f))
#define RNN_ADD_INT8(v) { \
    const v128_t eight = wasm_i16x8_load8x8(r + 8 * v); \
    const v128_t low = RNN_NUMBERS(wasm_i32x4_extend_low_i16x8(eight)); \
    const v128_t high = RNN_NUMBERS(wasm_i32x4_extend_high_i16x8(eight)); \
    total[2 * v] = wasm_f32x4_add(total[2 * v], wasm_f32x4_mul(low, a)); \
    total[2 * v + 1] = wasm_f32x4_add(total[2 * v + 1], wasm_f32x4_mul(high, a)); \
}
#endif

/* y += scale * (Q x), row by row of Q; q is Q transposed: for each of the k entries of x its n integers. */
static RNN_APART void RNN_product_int8(
    const int8_t *RNN_RESTRICT q, const float *RNN_RESTRICT scale, const float *RNN_RESTRICT x, float *RNN_RESTRICT y,
    int k, int n) {
    int first, i, j;
    for (first = 0; first < n; first += 64) {
        const int width = n - first < 64 ? n - first : 64;
        const int8_t *p = q + first;
        float sum[64] = {0.0f};
#ifdef __wasm_simd128__
        if (width == 64) { /* two halves of 32 sums in registers */
            int half;
            for (half = 0; half < 2; half++) {
                const int8_t *r = p + 32 * half;
                v128_t total[8];
                for (i = 0; i < 8; i++) total[i] = wasm_f32x4_splat(0.0f);
                for (j = 0; j < k; j++, r += n) {
                    const v128_t a = wasm_v128_load32_splat(x + j);
                    RNN_ADD_INT8(0) RNN_ADD_INT8(1) RNN_ADD_INT8(2) RNN_ADD_INT8(3)
                }
                for (i = 0; i < 8; i++) wasm_v128_store(sum + 32 * half + 4 * i, total[i]);
            }
        } else
#endif
        {
            for (j = 0; j + 3 < k; j += 4, p += 4 * n) {
                const float a = x[j], b = x[j + 1], c = x[j + 2], d = x[j + 3];
                for (i = 0; i < width; i++)
                    sum[i] = sum[i] + (float)p[i] * a + (float)p[n + i] * b + (float)p[2 * n + i] * c + (float)p[3 * n + i] * d;
            }
            for (; j < k; j++, p += n)
                for (i = 0; i < width; i++) sum[i] += (float)p[i] * x[j];
        }
        for (i = 0; i < width; i++) y[first + i] += scale[first + i] * sum[i];
    }
}
