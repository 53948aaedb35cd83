// What happens to rows before their features are computed: checks, box, centring, choice of precision.
//
// A block takes tiles of SL_TILE rows, a thread a row.  Everything that decides about a row is done in float64 in the
// order of the coordinates (four partial sums, coordinates modulo 4), as on the CPU.  Rows that have no part in the
// sums of the near kernel (weight 0, invalid, far, or beyond the end) are staged as zeros, and are counted: what zeros
// add to the sums is known and taken off in the end.  So the kernels that follow know no exceptions.

// Counts of one run, in this order; see summer.py.  All begin at zero: the first invalid row is kept as complement,
// and so is the order key of the lower end of the box.
enum { USED, SKIPPED, NEAR, FIRST_INVALID, WEIGHT, NEAR_WEIGHT, COUNTS };
enum { ABSENT, IS_NEAR, IS_FAR };

template <typename Real>
struct Rows {  // strides in elements
    const Real* data;
    i64 row_stride, column_stride;
};

struct Far {  // list of the rows to be computed in float64
    int* count;
    i64* row;
    int* run;
    i64* weight;
};

struct Staged {  // what the staging leaves; without `lower` no box, and for those who make it then, what rows became
    float* rows;
    i64* weights;
    Far far;
    u64 *lower, *upper, *linear, *counts;
    unsigned char* fates;
};

struct Clip {  // quadratic features: rows over the radius; `rounded` to the grid of `step`
    double inverse, step;
    bool rounded;
};

// Coordinates in shared memory at a time (all of them, if they are few), and the distance of rows there: odd, so that
// neither rows nor columns meet in one bank.
template <typename Real, int D>
struct Chunk {
    static const int LIMIT = sizeof(Real) == 4 ? 64 : 32;
    static const bool WHOLE = D <= LIMIT;
    static const int WIDTH = WHOLE ? D : SL_CHUNK, PITCH = WIDTH | 1;
};

template <typename Real, int D>
__device__ __forceinline__ void load_chunk(const Rows<Real>& X, i64 first, int rows, int k0, Real* chunk) {
    typedef Chunk<Real, D> C;
    const int thread = threadIdx.x, width = D - k0 < C::WIDTH ? D - k0 : C::WIDTH;
    const Real* at = X.data + first * X.row_stride + k0 * X.column_stride;
    if (X.row_stride < X.column_stride) {  // neighbours in memory are neighbours down a column
        if (thread < rows) {
            const Real* from = at + thread * X.row_stride;
            #pragma unroll 8
            for (int k = 0; k < width; k++) chunk[thread * C::PITCH + k] = from[k * X.column_stride];
        }
    } else if (X.row_stride == D && X.column_stride == 1 && C::WHOLE) {
        #pragma unroll 8
        for (int e = thread; e < rows * D; e += SL_TILE) chunk[e / D * C::PITCH + e % D] = at[e];
    } else {
        #pragma unroll 8
        for (int e = thread; e < rows * C::WIDTH; e += SL_TILE) {
            const int r = e / C::WIDTH, k = e % C::WIDTH;
            if (k < width) chunk[r * C::PITCH + k] = at[r * X.row_stride + k * X.column_stride];
        }
    }
}

// Lower and upper end of a column over the rows of a run.
template <typename Real>
struct Extent {
    Real low, high;
    bool any;
    __device__ __forceinline__ void take(Real v) {
        low = any && low <= v ? low : v, high = any && high >= v ? high : v, any = true;
    }
    __device__ __forceinline__ void join(const Extent& other) {
        if (other.any) take(other.low), take(other.high);
    }
    __device__ __forceinline__ void hand_over(u64* lower, u64* upper) {
        if (any) {  // most of the time both are wider already
            const u64 a = ~order_key((double)low), b = order_key((double)high);
            if (a > __ldcg(lower)) atomicMax(lower, a);
            if (b > __ldcg(upper)) atomicMax(upper, b);
        }
        any = false;
    }
};

// A coordinate of a clipped row, over the radius.
__device__ __forceinline__ double clipped(double v, double center, double inverse, double shrink) {
    return fmin(fmax(__dmul_rn(__dmul_rn(__dsub_rn(v, center), inverse), shrink), -1.0), 1.0);
}

// CLIPPED: rows over the radius, clipped to the unit ball (quadratic features), and their sum on the grid; otherwise
// rows minus the centre (Fourier features).  PANELS: the staged tile is coordinate by coordinate, else row by row, in
// PADDED coordinates.  `origin` is the number of row 0 of X among the rows of the call.
template <typename Real, int D, int PADDED, bool CLIPPED, bool PANELS>
__device__ __forceinline__ void stage_tiles(
    Rows<Real> X, Tiles tiles, i64 origin, const i64* weights, const double* center, const double* factors, Clip clip,
    Staged to
) {
    typedef Chunk<Real, D> C;
    __shared__ Real chunk[SL_TILE * C::PITCH];
    // short rows are staged on the way to their length, and written out by sixteen bytes
    const bool SHORT = !CLIPPED && !PANELS && PADDED <= 16;
    __shared__ __align__(16) float staged[SHORT ? SL_TILE * PADDED : 4];
    __shared__ double shrink[CLIPPED ? SL_TILE : 1];
    __shared__ unsigned char fate[SL_TILE];
    __shared__ i64 row_weight[SL_TILE];
    __shared__ u64 weight_sums[2];
    __shared__ Extent<Real> extents[C::WHOLE ? SL_TILE : 1];
    const int thread = threadIdx.x;
    const bool weighted = weights != nullptr;
    // for the box a thread keeps to a column and takes some of the rows
    const int groups = SL_TILE / C::WIDTH, column = thread % C::WIDTH, group = thread / C::WIDTH;
    Extent<Real> extent = {0, 0, false};
    u64 used = 0, near_rows = 0, weight_used = 0, weight_near = 0;
    int run = -1;
    auto hand_over = [&]() {
        u64* count = to.counts + (i64)run * COUNTS;
        if (thread == 0) {
            atomicAdd(&count[USED], used), atomicAdd(&count[NEAR], near_rows);
            atomicAdd(&count[WEIGHT], weight_used), atomicAdd(&count[NEAR_WEIGHT], weight_near);
        }
        used = near_rows = weight_used = weight_near = 0;
        if (C::WHOLE && to.lower) {  // one thread a column: thousands of blocks end at the same time, all with these few addresses
            extents[thread] = extent;
            extent.any = false;
            __syncthreads();
            if (thread < C::WIDTH) {
                Extent<Real> all = extents[thread];
                for (int g = 1; g < groups; g++) all.join(extents[g * C::WIDTH + thread]);
                all.hand_over(to.lower + (i64)run * D + thread, to.upper + (i64)run * D + thread);
            }
            __syncthreads();
        }
    };
    for (int tile = blockIdx.x; tile < tiles.tiles; tile += gridDim.x) {
        const i64 first = tiles.first_row(tile);
        const int rows = tiles.row_count(tile), owner = tiles.owner(tile);
        if (owner != run) {
            if (run >= 0) hand_over();
            run = owner;
        }
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        for (int k0 = 0; k0 < D; k0 += C::WIDTH) {
            __syncthreads();
            load_chunk<Real, D>(X, first, rows, k0, chunk);
            __syncthreads();
            const int width = D - k0 < C::WIDTH ? D - k0 : C::WIDTH;
            if (thread < rows) {
                #pragma unroll 2
                for (int k = 0; k < width; k += 4) {
                    double p[4];
                    float f[4];
                    #pragma unroll
                    for (int j = 0; j < 4; j++) {
                        p[j] = 0.0;  // adding 0 to a partial sum, which is never -0, changes nothing
                        f[j] = 0.0f;
                        if (k + j < width) {
                            const double x = __dsub_rn((double)chunk[thread * C::PITCH + k + j], center[k0 + k + j]);
                            p[j] = __dmul_rn(x, CLIPPED ? clip.inverse : factors[k0 + k + j]);
                            if (SHORT) f[j] = __double2float_rn(x);
                        }
                    }
                    if (SHORT) *(float4*)&staged[thread * PADDED + k] = {f[0], f[1], f[2], f[3]};
                    s0 = __dadd_rn(s0, __dmul_rn(p[0], p[0])), s1 = __dadd_rn(s1, __dmul_rn(p[1], p[1]));
                    s2 = __dadd_rn(s2, __dmul_rn(p[2], p[2])), s3 = __dadd_rn(s3, __dmul_rn(p[3], p[3]));
                }
            }
        }
        const double square = __dadd_rn(__dadd_rn(s0, s1), __dadd_rn(s2, s3));
        const i64 weight = thread < rows ? (weighted ? weights[first + thread] : 1) : 0;
        const bool present = weight != 0;
        const bool valid = present && square <= (CLIPPED ? 1e280 : SL_MAX2);  // false for NaN
        const bool is_far = !CLIPPED && valid && !(square <= SL_FAR2);
        const bool is_near = valid && !is_far;
        fate[thread] = is_near ? IS_NEAR : is_far ? IS_FAR : ABSENT;
        if (to.fates) to.fates[(i64)tile * SL_TILE + thread] = fate[thread];
        if (CLIPPED) {
            shrink[thread] = square <= 1.0 ? 1.0 : __ddiv_rn(1.0, __dsqrt_rn(square));
            row_weight[thread] = weight;
        }
        if (SHORT && !is_near)
            for (int k = 0; k < PADDED; k += 4) *(float4*)&staged[thread * PADDED + k] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (thread < 2) weight_sums[thread] = 0;
        if (present && !valid) {
            atomicMax(&to.counts[(i64)run * COUNTS + FIRST_INVALID], ~(u64)(origin + first + thread));
            atomicAdd(&to.counts[(i64)run * COUNTS + SKIPPED], (u64)1);
        }
        if (is_far) {
            const int slot = atomicAdd(to.far.count, 1);
            to.far.row[slot] = first + thread, to.far.run[slot] = run, to.far.weight[slot] = weight;
        }
        const int valid_here = __syncthreads_count(valid), near_here = __syncthreads_count(is_near);
        used += valid_here, near_rows += near_here;
        if (weighted) {
            if (valid) atomicAdd(&weight_sums[0], (u64)weight);
            if (is_near) atomicAdd(&weight_sums[1], (u64)weight);
            to.weights[(i64)tile * SL_TILE + thread] = is_near ? weight : 0;
            __syncthreads();
            weight_used += weight_sums[0], weight_near += weight_sums[1];
        } else {
            weight_used += valid_here, weight_near += near_here;
        }
        float* out = to.rows + (i64)tile * SL_TILE * PADDED;
        for (int k0 = 0; k0 < PADDED; k0 += C::WIDTH) {
            const int width = D - k0 < C::WIDTH ? D - k0 : C::WIDTH;
            if (!C::WHOLE) {  // otherwise the rows are still there
                __syncthreads();
                if (k0 < D) load_chunk<Real, D>(X, first, rows, k0, chunk);
                __syncthreads();
            }
            if (k0 < D && column < width && group < groups) {
                i64 sum = 0;
                for (int r = group; r < rows; r += groups) {
                    if (fate[r] == ABSENT) continue;
                    const Real v = chunk[r * C::PITCH + column];
                    extent.take(v);
                    if (CLIPPED) {
                        const double u = clipped((double)v, center[k0 + column], clip.inverse, shrink[r]);
                        sum += row_weight[r] * (i64)rint(__dmul_rn(u, clip.step));
                    }
                }
                const i64 at = (i64)run * D + k0 + column;
                if (CLIPPED && sum) atomicAdd(&to.linear[at], (u64)sum);
                if (!C::WHOLE && to.lower) extent.hand_over(to.lower + at, to.upper + at);
            }
            auto value = [&](int r, int k) {
                if (k >= width || fate[r] != IS_NEAR) return 0.0f;
                const Real v = chunk[r * C::PITCH + k];
                if (!CLIPPED) return __double2float_rn(__dsub_rn((double)v, center[k0 + k]));
                const double u = clipped((double)v, center[k0 + k], clip.inverse, shrink[r]);
                return __double2float_rn(clip.rounded ? rint(__dmul_rn(u, clip.step)) : u);
            };
            if (SHORT) {
                #pragma unroll
                for (int e = thread; e < SL_TILE * PADDED / 4; e += SL_TILE) ((float4*)out)[e] = ((float4*)staged)[e];
            } else if (PANELS) {
                const int end = C::WHOLE ? PADDED : PADDED - k0 < C::WIDTH ? PADDED - k0 : C::WIDTH;
                #pragma unroll 4
                for (int k = 0; k < end; k++) out[(i64)(k0 + k) * SL_TILE + thread] = value(thread, k);
            } else if (C::WHOLE) {
                #pragma unroll 4
                for (int e = thread; e < SL_TILE * PADDED; e += SL_TILE) out[e] = value(e / PADDED, e % PADDED);
            } else {
                const int end = PADDED - k0 < C::WIDTH ? PADDED - k0 : C::WIDTH;
                #pragma unroll 4
                for (int e = thread; e < SL_TILE * C::WIDTH; e += SL_TILE) {
                    const int r = e / C::WIDTH, k = e % C::WIDTH;
                    if (k < end) out[(i64)r * PADDED + k0 + k] = value(r, k);
                }
            }
            if (C::WHOLE) break;
        }
    }
    if (run >= 0) hand_over();
}
