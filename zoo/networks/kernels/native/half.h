// Products of matrices whose entries are rounded to bfloat16, summed in float32: in the matrix unit of a processor that
// has one (Intel's AMX), by the instruction for pairs of halves of one that has this (AVX-512), otherwise by ordinary float32
// products of rounded numbers. A half is a bfloat16 here, never a float16.
#pragma once

#include "matrix.h"

// `rows` rows of n floats, `row` apart, rounded, one after the other.
static inline Buffer rounded(const float* from, long row, long rows, long n) {
    Buffer to(rows * n);
    float* place = to;
    for (long r = 0; r < rows; r++, from += row, place += n) {
        long i = 0;
        for (; i + LANES <= n; i += LANES) {
            vec x;
            memcpy(&x, from + i, sizeof x);
            x = rounded(x);
            memcpy(place + i, &x, sizeof x);
        }
        for (; i < n; i++) place[i] = rounded(from[i] - vec{})[0];
    }
    return to;
}

// How they are computed: rounded beforehand, and then as any others; by pairs; by tiles.
enum class Means { ROUNDING, PAIRS, TILES };  // cli/doctor.py has words for them, in this order

#if defined(__AVX512F__) && defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WITH_PAIRS __attribute__((target("avx512bf16")))
#define WITH_TILES __attribute__((target("amx-tile,amx-bf16,avx512bf16")))

// The unit multiplies tiles: 16 rows of 32 halves with 16 columns of 32, the latter as 16 rows of pairs, one above the
// other in the matrix. It adds them to a tile of 16 rows of 16 floats. The instruction multiplies a pair with a row of
// pairs, so the same tiles serve it.
class Halves {
    struct Tile {
        bits row[16];
    };
    static constexpr long SIDE = 16, DEEP = 32;
    bool used;

    static long tile_count(long depth) { return (depth + DEEP - 1) / DEEP; }

    static Means ask() {
        unsigned a, b, c, d, pairs = 0;
        const unsigned needed = 1 << 24 | 1 << 22;  // tiles, and bfloat16 in them
        const long permission = 0x1023, tile_data = 18;  // the system keeps such large registers for those who ask
        if (!__get_cpuid_count(7, 1, &pairs, &b, &c, &d) || !(pairs & 1 << 5) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Means::ROUNDING;
        return (d & needed) == needed && !syscall(SYS_arch_prctl, permission, tile_data) ? Means::TILES : Means::PAIRS;
    }

    // Up to LANES floats, zero beyond the n that there are.
    static vec some(const float* from, long n) {
        return (vec)_mm512_maskz_loadu_ps(n >= LANES ? 0xffff : n > 0 ? (1 << n) - 1 : 0, from);
    }

    // Two vectors rounded, one in the lower halves of the lanes.
    WITH_PAIRS static bits pairs(vec low, vec high) {
        const __m512i lower = _mm512_maskz_cvtepu16_epi32(-1, (__m256i)_mm512_cvtneps_pbh((__m512)low));
        const __m512i upper = _mm512_maskz_cvtepu16_epi32(-1, (__m256i)_mm512_cvtneps_pbh((__m512)high));
        return (bits)lower | ((bits)upper << 16);
    }

    // 16 columns, or the n that there are, of up to 32 rows of a row-major matrix.
    WITH_PAIRS static Tile tile(const float* from, long row, long rows, long n) {
        Tile to;
        for (long k = 0; k < DEEP; k += 2)
            to.row[k / 2] = pairs(some(from + k * row, k < rows ? n : 0), some(from + (k + 1) * row, k + 1 < rows ? n : 0));
        return to;
    }

    template <int D>
    static void exchange_all(Tile& tile) {
        for (int i = 0; i < SIDE; i++)
            if (!(i & D)) exchange<D>(tile.row[i], tile.row[i + D]);
    }

    // Up to 16 rows of the left factor.
    WITH_PAIRS static void tile_rows(Tile* to, const float* a, long rows, long row, long step, long depth) {
        for (long k = 0; k < depth; k += DEEP, to++) {
            if (step != 1) {
                *to = tile(a + k * step, step, depth - k, rows);
                exchange_all<1>(*to), exchange_all<2>(*to), exchange_all<4>(*to), exchange_all<8>(*to);
                continue;
            }
            for (long r = 0; r < std::min(rows, SIDE); r++) {
                const float* from = a + r * row + k;
                const vec x = some(from, depth - k), y = some(from + LANES, depth - k - LANES);
                to->row[r] = (bits)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
            }
        }
    }

    // C tiles of out, of as many rows to a multiple of eight, in the registers of vectors.
    template <int C>
    WITH_PAIRS static void by_pairs(Out out, long rows, const Tile* a, const Tile* b, long depth) {
        constexpr int many = 8;  // rows at a time
        for (long first = 0; first < rows; first += many) {
            const Out to = out.at(first, 0);
            __m512 sum[many][C];
#pragma GCC unroll 8
            for (int r = 0; r < many; r++)
#pragma GCC unroll 8
                for (int c = 0; c < C; c++) sum[r][c] = (__m512)at(to.first + r * to.first_row + c * SIDE);
            const long deep = tile_count(depth);
            for (long pair = 0; 2 * pair < depth; pair++) {
                const Tile& left = a[first / SIDE * deep + pair / SIDE];
                const Tile* right = b + pair / SIDE;
#pragma GCC unroll 8
                for (int r = 0; r < many; r++) {
                    const __m512bh x = (__m512bh)(left.row[first % SIDE + r][pair % SIDE] - bits{});
#pragma GCC unroll 8
                    for (int c = 0; c < C; c++) sum[r][c] = _mm512_dpbf16_ps(sum[r][c], x, (__m512bh)right[c * deep].row[pair % SIDE]);
                }
            }
#pragma GCC unroll 8
            for (int r = 0; r < many; r++)
#pragma GCC unroll 8
                for (int c = 0; c < C; c++) at(to.data + r * to.row + c * SIDE) = (vec)sum[r][c];
        }
    }

    // R by C tiles of out, in the registers of tiles.
    template <int R, int C>
    WITH_TILES static void by_tiles(Out out, const Tile* a, const Tile* b, long deep) {
        const long row = out.row * 4, first_row = out.first_row * 4, below = SIDE * out.first_row;
        asm volatile("" ::: "memory");  // what is loaded here has been written before
        _tile_loadd(0, out.first, first_row);
        if (C > 1) _tile_loadd(1, out.first + SIDE, first_row);
        if (R > 1) _tile_loadd(2, out.first + below, first_row);
        if (R > 1 && C > 1) _tile_loadd(3, out.first + below + SIDE, first_row);
        for (long k = 0; k < deep; k++) {
            _tile_loadd(4, a + k, 64);
            _tile_loadd(6, b + k, 64);
            _tile_dpbf16ps(0, 4, 6);
            if (C > 1) _tile_loadd(7, b + deep + k, 64);
            if (C > 1) _tile_dpbf16ps(1, 4, 7);
            if (R > 1) _tile_loadd(5, a + deep + k, 64);
            if (R > 1) _tile_dpbf16ps(2, 5, 6);
            if (R > 1 && C > 1) _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, out.data, row);
        if (C > 1) _tile_stored(1, out.data + SIDE, row);
        if (R > 1) _tile_stored(2, out.data + SIDE * out.row, row);
        if (R > 1 && C > 1) _tile_stored(3, out.data + SIDE * out.row + SIDE, row);
    }

  public:
    static Means means() {
        static const Means answer = ask();
        return answer;
    }

    // Sets up the tiles of this thread for as long as it lives, which products by tiles need.
    WITH_TILES explicit Halves(bool wanted) : used(wanted && means() == Means::TILES) {
        struct alignas(64) {
            uint8_t palette = 1, first = 0, reserved[14] = {};
            uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
            uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
        } shapes;
        asm volatile("" : : "r"(&shapes) : "memory");  // all of it is read
        if (used) _tile_loadconfig(&shapes);
    }
    Halves(const Halves&) = delete;
    WITH_TILES ~Halves() {
        if (used) _tile_release();
    }

    // A plain right factor as its tiles, column by column of them.
    WITH_PAIRS static Buffer tiled(Right b) {
        Buffer memory(tile_count(b.depth) * b.columns * DEEP / 2);
        Tile* to = reinterpret_cast<Tile*>(static_cast<float*>(memory));
        for (long column = 0; column < b.columns; column += SIDE)
            for (long k = 0; k < b.depth; k += DEEP) *to++ = tile(b.data + k * b.columns + column, b.columns, b.depth - k, SIDE);
        return memory;
    }

    // multiply() of product.h. Where out has no room for whole tiles, the rest of the rows in `spare` and `block` is
    // anything: a row of a product depends on no other.
    WITH_PAIRS static void multiply(Out out, long rows, const float* a, long row, long step, Right b) {
        constexpr long most = 2 * SIDE;
        const long deep = tile_count(b.depth);
        static thread_local std::vector<Tile> block;
        if (long(block.size()) < 2 * deep) block.resize(2 * deep);
        alignas(64) float spare[most * most];
        Buffer fresh = b.packed ? Buffer(0) : tiled(b);
        const Tile* const factor = reinterpret_cast<const Tile*>(b.packed ? b.data : static_cast<float*>(fresh));
        for (long r = 0; r < rows; r += most) {
            const long n = std::min(rows - r, most);
            const bool fits = n % SIDE == 0, two = n > SIDE;
            for (long i = 0; i < n; i += SIDE) tile_rows(block.data() + i / SIDE * deep, a + (r + i) * row, n - i, row, step, b.depth);
            for (long column = 0; column < b.columns; column += most) {
                const long width = std::min(b.columns - column, most);
                const Tile *const left = block.data(), *const right = factor + column / SIDE * deep;
                const Out place = out.at(r, column), to = fits ? place : Out(spare, most);
                if (!fits)
                    for (long i = 0; i < n; i++) memcpy(spare + i * most, place.first + i * place.first_row, width * 4);
                if (means() == Means::PAIRS)
                    width == most ? by_pairs<2>(to, n, left, right, b.depth) : by_pairs<1>(to, n, left, right, b.depth);
                else if (two)
                    width == most ? by_tiles<2, 2>(to, left, right, deep) : by_tiles<2, 1>(to, left, right, deep);
                else
                    width == most ? by_tiles<1, 2>(to, left, right, deep) : by_tiles<1, 1>(to, left, right, deep);
                if (!fits)
                    for (long i = 0; i < n; i++) memcpy(place.data + i * place.row, spare + i * most, width * 4);
            }
        }
    }
};

#else

struct Halves {
    explicit Halves(bool) {}
    static Means means() { return Means::ROUNDING; }
    static Buffer tiled(Right) { return Buffer(0); }
    static void multiply(Out, long, const float*, long, long, Right) {}
};

#endif
