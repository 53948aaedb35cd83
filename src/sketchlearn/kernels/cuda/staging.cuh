// What happens to rows before their features are computed: checks, box, centring, choice of precision.
//
// A block takes a tile of SL_TILE rows, a thread a row.  Everything that decides about a row is done in float64 in the
// order of the coordinates (four partial sums, coordinates modulo 4), as on the CPU.  Rows that have no part in the
// sums of the near kernel (weight 0, invalid, far, or beyond the end) are staged as zeros, and are counted: what zeros
// add to the sums is known and taken off in the end.  So the kernels that follow know no exceptions.

// Counts of one run, in this order; see summer.py.  All begin at zero: the first invalid row is kept as complement,
// and so is the order key of the lower end of the box.
enum { USED, SKIPPED, NEAR, FIRST_INVALID, WEIGHT, NEAR_WEIGHT, COUNTS };
enum { ABSENT, IS_NEAR, IS_FAR };

static const int CHUNK = 32;  // coordinates in shared memory at a time

template <typename Real>
struct Rows {  // strides in elements
    const Real* data;
    i64 row_stride, column_stride;
    int dim;
};

struct Far {  // list of the rows to be computed in float64
    int* count;
    i64* row;
    int* run;
    i64* weight;
};

template <typename Real>
__device__ __forceinline__ void load_chunk(const Rows<Real>& X, i64 first, int rows, int k0, Real (*chunk)[CHUNK + 1]) {
    const int width = X.dim - k0 < CHUNK ? X.dim - k0 : CHUNK;
    const Real* at = X.data + first * X.row_stride + k0 * X.column_stride;
    if (X.row_stride < X.column_stride) {  // neighbours in memory are neighbours down a column
        for (int e = threadIdx.x; e < SL_TILE * CHUNK; e += SL_TILE) {
            const int r = e % SL_TILE, k = e / SL_TILE;
            if (r < rows && k < width) chunk[r][k] = at[r * X.row_stride + k * X.column_stride];
        }
    } else {
        // threads run along the row as long as it is, so that short rows leave no thread idle
        const int step_rows = SL_TILE / width, step_columns = SL_TILE % width;
        int r = threadIdx.x / width, k = threadIdx.x % width;
        while (r < rows) {
            chunk[r][k] = at[r * X.row_stride + k * X.column_stride];
            r += step_rows, k += step_columns;
            if (k >= width) k -= width, r++;
        }
    }
}

// Lower and upper end of a column, kept as order keys; most rows change neither.
__device__ __forceinline__ void widen(u64* lower, u64* upper, double low, double high) {
    const u64 a = order_key(low), b = order_key(high);
    if (~a > __ldcg(lower)) atomicMax(lower, ~a);
    if (b > __ldcg(upper)) atomicMax(upper, b);
}

// CLIPPED: rows over the radius, clipped to the unit ball (quadratic features), and their sum on the grid; otherwise
// rows minus the centre (Fourier features).  PANELS: the staged tile is coordinate by coordinate, else row by row.
// `origin` is the number of row 0 of X among the rows of the call.
template <typename Real, bool CLIPPED, bool PANELS, int WIDTH>
__device__ __forceinline__ void stage_tiles(
    Rows<Real> X, Tiles tiles, i64 origin, const i64* weights, const double* center, const double* factors, double inverse,
    double step, bool rounded, int padded, float* staged, i64* staged_weights, Far far, u64* lower, u64* upper,
    u64* linear, u64* counts
) {
    __shared__ Real chunk[SL_TILE][CHUNK + 1];
    __shared__ double shrink[SL_TILE];
    __shared__ unsigned char fate[SL_TILE];
    __shared__ i64 row_weight[SL_TILE];
    __shared__ u64 weight_sums[2];
    const int thread = threadIdx.x, d = X.dim;
    const bool weighted = weights != nullptr;
    for (int tile = blockIdx.x; tile < tiles.tiles; tile += gridDim.x) {
        const i64 first = tiles.first_row(tile);
        const int rows = tiles.row_count(tile), run = tiles.owner(tile);
        u64* count = counts + (i64)run * COUNTS;
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        for (int k0 = 0; k0 < d; k0 += CHUNK) {
            __syncthreads();
            load_chunk(X, first, rows, k0, chunk);
            __syncthreads();
            const int width = d - k0 < CHUNK ? d - k0 : CHUNK;
            if (thread < rows) {
                for (int k = 0; k < width; k += 4) {
                    double p[4];
                    #pragma unroll
                    for (int j = 0; j < 4; j++) {
                        p[j] = 0.0;  // adding 0 to a partial sum, which is never -0, changes nothing
                        if (k + j < width) {
                            const double x = __dsub_rn((double)chunk[thread][k + j], center[k0 + k + j]);
                            p[j] = __dmul_rn(x, CLIPPED ? inverse : factors[k0 + k + j]);
                        }
                    }
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
        row_weight[thread] = weight;
        if (CLIPPED) shrink[thread] = square <= 1.0 ? 1.0 : __ddiv_rn(1.0, __dsqrt_rn(square));
        if (thread < 2) weight_sums[thread] = 0;
        const int near_rows = __syncthreads_count(is_near);
        const int used = __syncthreads_count(valid);
        const int invalid = __syncthreads_count(present && !valid);
        if (present && !valid) atomicMax(&count[FIRST_INVALID], ~(u64)(origin + first + thread));
        if (is_far) {
            const int slot = atomicAdd(far.count, 1);
            far.row[slot] = first + thread, far.run[slot] = run, far.weight[slot] = weight;
        }
        if (weighted) {
            if (valid) atomicAdd(&weight_sums[0], (u64)weight);
            if (is_near) atomicAdd(&weight_sums[1], (u64)weight);
            staged_weights[(i64)tile * SL_TILE + thread] = is_near ? weight : 0;
            __syncthreads();
        }
        if (thread == 0) {
            atomicAdd(&count[USED], (u64)used), atomicAdd(&count[NEAR], (u64)near_rows);
            if (invalid) atomicAdd(&count[SKIPPED], (u64)invalid);
            atomicAdd(&count[WEIGHT], weighted ? weight_sums[0] : (u64)used);
            atomicAdd(&count[NEAR_WEIGHT], weighted ? weight_sums[1] : (u64)near_rows);
        }
        float* out = staged + (i64)tile * SL_TILE * padded;
        for (int k0 = 0; k0 < padded; k0 += CHUNK) {
            if (d > CHUNK) {  // a short row is still there
                __syncthreads();
                if (k0 < d) load_chunk(X, first, rows, k0, chunk);
                __syncthreads();
            }
            // the box, and the sum of clipped rows: a thread keeps to its column and takes every fourth row
            const int k = thread % CHUNK, column = k0 + k;
            if (column < d) {
                double low = 0.0, high = 0.0;
                i64 sum = 0;
                bool any = false;
                for (int r = thread / CHUNK; r < rows; r += SL_TILE / CHUNK) {
                    if (fate[r] == ABSENT) continue;
                    const double v = (double)chunk[r][k];
                    low = any && low <= v ? low : v, high = any && high >= v ? high : v, any = true;
                    if (CLIPPED) {
                        const double x = __dmul_rn(__dsub_rn(v, center[column]), inverse);
                        const double u = fmin(fmax(__dmul_rn(x, shrink[r]), -1.0), 1.0);
                        sum += row_weight[r] * (i64)rint(__dmul_rn(u, step));
                    }
                }
                if (any) {
                    widen(lower + (i64)run * d + column, upper + (i64)run * d + column, low, high);
                    if (CLIPPED && sum) atomicAdd(&linear[(i64)run * d + column], (u64)sum);
                }
            }
            // the staged rows
            const int width = PANELS ? (padded - k0 < CHUNK ? padded - k0 : CHUNK) : WIDTH;
            for (int e = thread; e < SL_TILE * width; e += SL_TILE) {
                const int r = PANELS ? thread : e / WIDTH, j = PANELS ? e / SL_TILE : e % WIDTH;
                float value = 0.0f;
                if (k0 + j < d && fate[r] == IS_NEAR) {
                    double x = __dsub_rn((double)chunk[r][j], center[k0 + j]);
                    if (CLIPPED) {
                        x = fmin(fmax(__dmul_rn(__dmul_rn(x, inverse), shrink[r]), -1.0), 1.0);
                        if (rounded) x = rint(__dmul_rn(x, step));
                    }
                    value = __double2float_rn(x);
                }
                out[PANELS ? (i64)(k0 + j) * SL_TILE + r : e] = value;
            }
        }
        __syncthreads();
    }
}
