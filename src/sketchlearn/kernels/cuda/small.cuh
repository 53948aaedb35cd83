// Few coordinates: a thread keeps EACH frequencies in registers and walks over staged rows, which all threads of the
// block read from shared memory (the same address at the same time), SL_ROWS rows at a time, while the next tile arrives.
// Blocks are THREADS * FULL frequencies apart; the last one may have fewer for its threads.

template <typename Terms, int D, int WIDTH, int EACH, int FULL, int THREADS, bool WEIGHTED>
__device__ __forceinline__ void sum_small(
    const float* __restrict__ staged, const i64* __restrict__ staged_weights, Tiles tiles,
    const float* __restrict__ frequencies, const float* __restrict__ scales, int size, u64* sums,
    float (*rows)[SL_TILE * WIDTH], i64 (*row_weights)[SL_TILE]
) {
    const int P = Terms::PARTS;
    const int first = blockIdx.x * THREADS * FULL + threadIdx.x;
    float w[EACH][D], scale[EACH];
    #pragma unroll
    for (int f = 0; f < EACH; f++) {
        const int j = first + f * THREADS;
        scale[f] = scales && j < size ? scales[j] : 1.0f;
        #pragma unroll
        for (int k = 0; k < D; k++) w[f][k] = j < size ? frequencies[(i64)j * D + k] : 0.0f;
    }
    u64 totals[EACH][P];
    #pragma unroll
    for (int f = 0; f < EACH; f++)
        #pragma unroll
        for (int p = 0; p < P; p++) totals[f][p] = 0;

    auto fetch = [&](int tile, int slot) {
        if (tile < tiles.tiles) {
            const float* from = staged + (i64)tile * SL_TILE * WIDTH;
            for (int e = 4 * threadIdx.x; e < SL_TILE * WIDTH; e += 4 * THREADS) copy16(&rows[slot][e], from + e);
            if (WEIGHTED)
                for (int r = threadIdx.x; r < SL_TILE; r += THREADS)
                    row_weights[slot][r] = staged_weights[(i64)tile * SL_TILE + r];
        }
        copies_end();
    };
    auto phase = [&](const float* x, int f) {
        float t = 0.0f;
        #pragma unroll
        for (int k = 0; k < D; k++) t = __fmaf_rn(x[k], w[f][k], t);
        return t;
    };
    auto flush = [&](int run) {
        #pragma unroll
        for (int f = 0; f < EACH; f++) {
            const int j = first + f * THREADS;
            #pragma unroll
            for (int p = 0; p < P; p++) {
                if (j < size) atomicAdd(&sums[((i64)run * P + p) * size + j], totals[f][p]);
                totals[f][p] = 0;
            }
        }
    };

    int slot = 0, run = -1;
    fetch(blockIdx.y, 0);
    for (int tile = blockIdx.y; tile < tiles.tiles; tile += gridDim.y, slot ^= 1) {
        fetch(tile + gridDim.y, slot ^ 1);
        copies_wait<1>();
        __syncthreads();
        const int owner = tiles.owner(tile);
        if (owner != run) {
            if (run >= 0) flush(run);
            run = owner;
        }
        const int count = (tiles.row_count(tile) + SL_ROWS - 1) / SL_ROWS * SL_ROWS;  // rows of zeros more, if need be
        u32 part[EACH][P];
        #pragma unroll
        for (int f = 0; f < EACH; f++)
            #pragma unroll
            for (int p = 0; p < P; p++) part[f][p] = 0;
        const i64* weight = row_weights[WEIGHTED ? slot : 0];
        const float *row = rows[slot], *const end = row + count * WIDTH;
        #pragma unroll 1
        for (; row != end; row += SL_ROWS * WIDTH) {
            float x[SL_ROWS][WIDTH];
            #pragma unroll
            for (int a = 0; a < SL_ROWS; a++)
                #pragma unroll
                for (int k = 0; k < WIDTH; k += 4) {
                    const float4 v = *(const float4*)(row + a * WIDTH + k);
                    x[a][k] = v.x, x[a][k + 1] = v.y, x[a][k + 2] = v.z, x[a][k + 3] = v.w;
                }
            #pragma unroll
            for (int f = 0; f < EACH; f++)
                #pragma unroll
                for (int a = 0; a < SL_ROWS; a += 2) {  // two at a time: one instruction adds both
                    u32 one[P], two[P];
                    Terms::of(phase(x[a], f), scale[f], one);
                    Terms::of(phase(x[a + 1], f), scale[f], two);
                    #pragma unroll
                    for (int p = 0; p < P; p++) {
                        if (WEIGHTED)
                            totals[f][p] += one[p] * (u64)weight[a] + two[p] * (u64)weight[a + 1];
                        else
                            part[f][p] += one[p] + two[p];
                    }
                }
            if (WEIGHTED) weight += SL_ROWS;
        }
        if (!WEIGHTED) {
            #pragma unroll
            for (int f = 0; f < EACH; f++)
                #pragma unroll
                for (int p = 0; p < P; p++)
                    totals[f][p] += (u64)(i64)(int)(part[f][p] - (u32)count * Terms::ZERO);
        }
        __syncthreads();
    }
    if (run >= 0) flush(run);
}

template <typename Terms, int D, int WIDTH, int FULL, int THREADS, bool WEIGHTED>
__device__ __forceinline__ void sum_small_block(
    const float* __restrict__ staged, const i64* __restrict__ staged_weights, Tiles tiles,
    const float* __restrict__ frequencies, const float* __restrict__ scales, int size, u64* sums
) {
    __shared__ __align__(16) float rows[2][SL_TILE * WIDTH];
    __shared__ i64 row_weights[WEIGHTED ? 2 : 1][SL_TILE];
    const int left = size - blockIdx.x * THREADS * FULL;
    const int HALF = FULL > 1 ? FULL / 2 : 1, QUARTER = FULL > 3 ? FULL / 4 : 1;
    if (left <= THREADS * QUARTER)
        sum_small<Terms, D, WIDTH, QUARTER, FULL, THREADS, WEIGHTED>(
            staged, staged_weights, tiles, frequencies, scales, size, sums, rows, row_weights
        );
    else if (left <= THREADS * HALF)
        sum_small<Terms, D, WIDTH, HALF, FULL, THREADS, WEIGHTED>(
            staged, staged_weights, tiles, frequencies, scales, size, sums, rows, row_weights
        );
    else
        sum_small<Terms, D, WIDTH, FULL, FULL, THREADS, WEIGHTED>(
            staged, staged_weights, tiles, frequencies, scales, size, sums, rows, row_weights
        );
}
