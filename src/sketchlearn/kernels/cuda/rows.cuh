// What some maps want of rows before they are staged: whitened rows with the box of the rows as they are, and numbers
// that follow from what is in a row.

enum { WHITEN_ROWS = 16, WHITEN_COLUMNS = 32 };

// Rows about the centre times a matrix, in float64 in the order of the columns, nothing fused; a block takes
// WHITEN_ROWS rows at a time, a thread one of the columns of the result.  The matrix comes column by column.
template <typename Real, int D>
__device__ __forceinline__ void whiten_rows(
    Rows<Real> X, i64 from, i64 to, const double* __restrict__ center, const double* __restrict__ by_column, double* out
) {
    __shared__ double x[WHITEN_COLUMNS][WHITEN_ROWS];
    for (i64 first = from + (i64)blockIdx.x * WHITEN_ROWS; first < to; first += (i64)gridDim.x * WHITEN_ROWS) {
        const int rows = to - first < WHITEN_ROWS ? (int)(to - first) : WHITEN_ROWS;
        for (int j0 = 0; j0 < D; j0 += blockDim.x) {
            const int j = j0 + threadIdx.x;
            double sums[WHITEN_ROWS];
            #pragma unroll
            for (int a = 0; a < WHITEN_ROWS; a++) sums[a] = 0.0;
            for (int k0 = 0; k0 < D; k0 += WHITEN_COLUMNS) {
                const int width = D - k0 < WHITEN_COLUMNS ? D - k0 : WHITEN_COLUMNS;
                __syncthreads();
                for (int e = threadIdx.x; e < WHITEN_ROWS * width; e += blockDim.x) {
                    const int a = e / width, k = e % width;
                    const Real v = X.data[(first + (a < rows ? a : 0)) * X.row_stride + (k0 + k) * X.column_stride];
                    x[k][a] = __dsub_rn((double)v, center[k0 + k]);
                }
                __syncthreads();
                if (j < D)
                    for (int k = 0; k < width; k++) {
                        const double w = by_column[(i64)(k0 + k) * D + j];
                        #pragma unroll
                        for (int a = 0; a < WHITEN_ROWS; a++) sums[a] = __dadd_rn(sums[a], __dmul_rn(x[k][a], w));
                    }
            }
            if (j < D)
                #pragma unroll
                for (int a = 0; a < WHITEN_ROWS; a++)
                    if (a < rows) out[(first + a) * D + j] = sums[a];
        }
    }
}

// The box of the rows that a staging of other rows has found valid.
template <typename Real, int D>
__device__ __forceinline__ void box_rows(
    Rows<Real> X, Tiles tiles, const unsigned char* __restrict__ fates, u64* lower, u64* upper
) {
    const int WIDTH = D < SL_TILE ? D : SL_TILE, GROUPS = SL_TILE / WIDTH;
    const int column = threadIdx.x % WIDTH, group = threadIdx.x / WIDTH;
    if (group >= GROUPS) return;
    for (int tile = blockIdx.x; tile < tiles.tiles; tile += gridDim.x) {
        const i64 first = tiles.first_row(tile);
        const int rows = tiles.row_count(tile);
        for (int k = column; k < D; k += WIDTH) {
            Extent<Real> extent = {0, 0, false};
            for (int r = group; r < rows; r += GROUPS)
                if (fates[(i64)tile * SL_TILE + r] != ABSENT)
                    extent.take(X.data[(first + r) * X.row_stride + k * X.column_stride]);
            const i64 at = (i64)tiles.owner(tile) * D + k;
            extent.hand_over(lower + at, upper + at);
        }
    }
}

// A number below `groups` for each row, from its content (kernels/_hash_compiled.py).
template <typename Real, int D>
__device__ __forceinline__ void pick_rows(Rows<Real> X, i64 rows, u64 seed, u64 groups, int* out) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += (i64)gridDim.x * blockDim.x) {
        u64 part[4] = {seed, seed + 1, seed + 2, seed + 3};
        const Real* const row = X.data + i * X.row_stride;
        for (int k = 0; k < D; k += 4)
            #pragma unroll
            for (int j = 0; j < 4; j++)
                if (k + j < D) {
                    const double v = __dadd_rn((double)row[(k + j) * X.column_stride], 0.0);
                    part[j] = (part[j] ^ (u64)__double_as_longlong(v)) * SL_MIX_1;
                    part[j] ^= part[j] >> 32;
                }
        u64 h = (part[0] ^ part[1]) * SL_MIX_2;
        h ^= h >> 29;
        h = (h ^ part[2]) * SL_MIX_2;
        h ^= h >> 29;
        h = (h ^ part[3]) * SL_MIX_2;
        h = (h ^ h >> 29) * SL_MIX_3;
        h ^= h >> 32;
        out[i] = (int)((h >> 32) * groups >> 32);
    }
}
