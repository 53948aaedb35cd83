// Products of any two columns of rounded rows: integers of 15 bits and a sign, multiplied and added up as integers.
//
// A block takes a square of SIDE x SIDE pairs of columns on or above the diagonal and its share of the tiles; staged
// rows are in panels (coordinate by coordinate).

template <int SIDE, bool WEIGHTED>
__device__ __forceinline__ void sum_products(
    const float* __restrict__ staged, const i64* __restrict__ staged_weights, Tiles tiles, int padded, int dim,
    u64* sums
) {
    const int EACH = 4, T = SIDE / EACH, HALF = SL_TILE / 2;
    __shared__ int left[SIDE][HALF + 1], right[SIDE][HALF + 1];
    __shared__ i64 row_weights[HALF];
    // square number blockIdx.x of the triangle: the row of squares bi and the column bj >= bi
    const int squares = (dim + SIDE - 1) / SIDE;
    int bi = 0, rest = blockIdx.x;
    while (rest >= squares - bi) rest -= squares - bi, bi++;
    const int bj = bi + rest, tx = threadIdx.x % T, ty = threadIdx.x / T;
    u64 totals[EACH][EACH];
    #pragma unroll
    for (int a = 0; a < EACH; a++)
        #pragma unroll
        for (int b = 0; b < EACH; b++) totals[a][b] = 0;
    auto flush = [&](int run) {
        u64* out = sums + (i64)run * ((i64)dim * (dim + 1) / 2);
        #pragma unroll
        for (int a = 0; a < EACH; a++)
            #pragma unroll
            for (int b = 0; b < EACH; b++) {
                const i64 i = bi * SIDE + ty + a * T, j = bj * SIDE + tx + b * T;
                if (j < dim && i <= j) atomicAdd(&out[i * dim - i * (i - 1) / 2 + (j - i)], totals[a][b]);
                totals[a][b] = 0;
            }
    };
    int run = -1;
    for (int tile = blockIdx.y; tile < tiles.tiles; tile += gridDim.y) {
        const int owner = tiles.owner(tile);
        if (owner != run) {
            if (run >= 0) flush(run);
            run = owner;
        }
        const float* rows = staged + (i64)tile * padded * SL_TILE;
        for (int r0 = 0; r0 < SL_TILE; r0 += HALF) {
            __syncthreads();
            for (int e = threadIdx.x; e < SIDE * HALF; e += T * T) {
                const int r = e % HALF, k = e / HALF;
                const int i = bi * SIDE + k, j = bj * SIDE + k;
                left[k][r] = i < dim ? (int)rows[(i64)i * SL_TILE + r0 + r] : 0;
                right[k][r] = j < dim ? (int)rows[(i64)j * SL_TILE + r0 + r] : 0;
            }
            if (WEIGHTED)
                for (int r = threadIdx.x; r < HALF; r += T * T)
                    row_weights[r] = staged_weights[(i64)tile * SL_TILE + r0 + r];
            __syncthreads();
            for (int r = 0; r < HALF; r++) {
                i64 x[EACH];
                int y[EACH];
                #pragma unroll
                for (int a = 0; a < EACH; a++) {
                    x[a] = left[ty + a * T][r], y[a] = right[tx + a * T][r];
                    if (WEIGHTED) x[a] *= row_weights[r];
                }
                #pragma unroll
                for (int a = 0; a < EACH; a++)
                    #pragma unroll
                    for (int b = 0; b < EACH; b++)
                        totals[a][b] += WEIGHTED ? (u64)(x[a] * y[b]) : (u64)((i64)(int)x[a] * y[b]);
            }
        }
    }
    if (run >= 0) flush(run);
}
