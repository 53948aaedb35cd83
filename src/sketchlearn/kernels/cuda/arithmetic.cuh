// One feature of one row, in the arithmetic of the CPU tiers: every operation is rounded as IEEE says, none is
// fused that they don't fuse, and the result is an integer, so that the order of the sums is of no account.
//
// The numbers (SL_...) come from kernels/_constants.py; see there for what they are.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

// Adding 12582912 leaves rint(t) in the low bits of the significand: bit 0 is the parity, which becomes the sign bit
// of a factor of one.  The compiler makes one instruction of shift and addition.
__device__ __forceinline__ float half_turn_sign(float shifted) {
    return __int_as_float((int)(((u32)__float_as_int(shifted) << 31) + 0x3f800000u));
}

// Bits of cos(pi t) + 3 and sin(pi t) + 3 in float32: grid units above the bits of 3.0 (SL_ZERO32).
__device__ __forceinline__ void turned(float t, u32& cosine, u32& sine) {
    const float shifted = __fadd_rn(t, SL_PARITY32);
    const float r = __fsub_rn(t, __fsub_rn(shifted, SL_PARITY32));  // t - rint(t), exact
    const float u = __fmul_rn(r, r);
    float c = __fmaf_rn(SL_COS32_4, u, SL_COS32_3), s = __fmaf_rn(SL_SIN32_4, u, SL_SIN32_3);
    c = __fmaf_rn(c, u, SL_COS32_2), s = __fmaf_rn(s, u, SL_SIN32_2);
    c = __fmaf_rn(c, u, SL_COS32_1), s = __fmaf_rn(s, u, SL_SIN32_1);
    c = __fmaf_rn(c, u, SL_COS32_0), s = __fmaf_rn(s, u, SL_SIN32_0);
    s = __fmul_rn(s, r);
    const float sign = half_turn_sign(shifted);
    cosine = (u32)__float_as_int(__fmaf_rn(c, sign, SL_ROUND32));  // the product is exact
    sine = (u32)__float_as_int(__fmaf_rn(s, sign, SL_ROUND32));
}

// The same in float64, for rows far from the centre: grid units above SL_ZERO64.
__device__ __forceinline__ void turned_far(double t, u64& cosine, u64& sine) {
    const u64 parity = (u64)__double_as_longlong(__dadd_rn(t, SL_PARITY64));
    const double r = __dsub_rn(t, rint(t));
    const double u = __dmul_rn(r, r);
    double c = __fma_rn(SL_COS64_6, u, SL_COS64_5), s = __fma_rn(SL_SIN64_5, u, SL_SIN64_4);
    c = __fma_rn(c, u, SL_COS64_4), s = __fma_rn(s, u, SL_SIN64_3);
    c = __fma_rn(c, u, SL_COS64_3), s = __fma_rn(s, u, SL_SIN64_2);
    c = __fma_rn(c, u, SL_COS64_2), s = __fma_rn(s, u, SL_SIN64_1);
    c = __fma_rn(c, u, SL_COS64_1), s = __fma_rn(s, u, SL_SIN64_0);
    c = __fma_rn(c, u, SL_COS64_0);
    s = __dmul_rn(s, r);
    const double sign = __longlong_as_double((i64)((parity << 63) + 0x3ff0000000000000ull));
    cosine = (u64)__double_as_longlong(__fma_rn(c, sign, SL_ROUND64));
    sine = (u64)__double_as_longlong(__fma_rn(s, sign, SL_ROUND64));
}

// Bits of min(scale t^2, 1) + 2: the square of a projection in grid units above the bits of 2.0 (SL_ZERO_SQUARE).
__device__ __forceinline__ u32 squared(float t, float scale) {
    const float s = __fmul_rn(__fmul_rn(t, t), scale);
    return (u32)__float_as_int(__fadd_rn(s < 1.0f ? s : 1.0f, 2.0f));
}

// Order of numbers as order of unsigned integers, for minima and maxima by atomic operations.
__device__ __forceinline__ u64 order_key(double v) {
    const u64 bits = (u64)__double_as_longlong(v);
    return bits ^ ((bits >> 63) ? ~0ull : 1ull << 63);
}

// -- the kinds of features -------------------------------------------------------------------
//
// Raw bits are added as they are: modulo 2^32 for rows of weight 1 (no more than SL_FLUSH_ROWS of them, whose true sum
// has 31 bits), or modulo 2^64 times the weight.  What the bits of 3.0 (or 2.0) contribute is taken off afterwards.
// The second number is what the plan has for a frequency beside it.

struct Turns {  // cosine and sine
    static const int PARTS = 2;
    static const u32 ZERO = SL_ZERO32;
    static const u64 FAR_ZERO = SL_ZERO64;
    __device__ __forceinline__ static void of(float t, float, u32* bits) { turned(t, bits[0], bits[1]); }
    __device__ __forceinline__ static void of_far(double t, double, u64* bits) { turned_far(t, bits[0], bits[1]); }
};

struct Signs {  // whether they are negative, once the dither is added to the phase
    static const int PARTS = 2;
    static const u32 ZERO = 0;
    static const u64 FAR_ZERO = 0;
    __device__ __forceinline__ static u32 odd(float t) { return (u32)__float_as_int(__fadd_rn(t, SL_PARITY32)) & 1; }
    __device__ __forceinline__ static u64 odd(double t) {
        return (u64)__double_as_longlong(__dadd_rn(t, SL_PARITY64)) & 1;
    }
    __device__ __forceinline__ static void of(float t, float dither, u32* bits) {
        t = __fadd_rn(t, dither);
        bits[0] = odd(t), bits[1] = odd(__fsub_rn(t, 0.5f));
    }
    __device__ __forceinline__ static void of_far(double t, double dither, u64* bits) {
        t = __dadd_rn(t, dither);
        bits[0] = odd(t), bits[1] = odd(__dsub_rn(t, 0.5));
    }
};

struct Squares {  // the square of a projection
    static const int PARTS = 1;
    static const u32 ZERO = SL_ZERO_SQUARE;
    __device__ __forceinline__ static void of(float t, float scale, u32* bits) { bits[0] = squared(t, scale); }
};

struct Rounded {  // the square of a projection on a structured direction
    static const int PARTS = 1;
    static const u32 ZERO = 0;
    __device__ __forceinline__ static void of(float t, float, u32* bits) {
        bits[0] = (u32)(int)rintf(__fmul_rn(__fmul_rn(t, t), SL_UNITS));
    }
};

struct Powers {  // the second, third and fourth power of a projection
    static const int PARTS = 3;
    static const u32 ZERO = SL_ZERO32;
    __device__ __forceinline__ static void of(float t, float scale, u32* bits) {
        float s = __fmul_rn(t, scale);
        s = s < 1.0f ? s : 1.0f;
        s = s > -1.0f ? s : -1.0f;
        const float square = __fmul_rn(s, s);
        bits[0] = (u32)__float_as_int(__fadd_rn(square, SL_ROUND32));
        bits[1] = (u32)__float_as_int(__fadd_rn(__fmul_rn(square, s), SL_ROUND32));
        bits[2] = (u32)__float_as_int(__fadd_rn(__fmul_rn(square, square), SL_ROUND32));
    }
};

// -- copies that run while the block computes ------------------------------------------------

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy16(float* to, const float* from) {
    const u32 address = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
}
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;"); }
template <int LEFT>
__device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT)); }
#else
__device__ __forceinline__ void copy16(float* to, const float* from) { *(float4*)to = *(const float4*)from; }
__device__ __forceinline__ void copies_end() {}
template <int LEFT>
__device__ __forceinline__ void copies_wait() {}
#endif

// Where a tile of SL_TILE staged rows comes from: its first row, how many rows, and whose sums it goes to.  Without
// groups there is no table: tiles follow each other.
struct Tiles {
    const i64* first;
    const int* count;
    const int* run;
    i64 base, rows;  // without a table: row where the first tile begins, and where the rows end
    int tiles;
    __device__ __forceinline__ i64 first_row(int tile) const {
        return first ? first[tile] : base + (i64)tile * SL_TILE;
    }
    __device__ __forceinline__ int row_count(int tile) const {
        if (count) return count[tile];
        const i64 left = rows - first_row(tile);
        return left < SL_TILE ? (int)left : SL_TILE;
    }
    __device__ __forceinline__ int owner(int tile) const { return run ? run[tile] : 0; }
};
