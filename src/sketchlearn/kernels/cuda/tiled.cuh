// Any number of coordinates: a float32 product in register tiles, with the feature as its epilogue.
//
// A block takes SL_TILE rows times COLUMNS frequencies, a thread TM x TN of them.  Panels of DEPTH coordinates of both
// come into shared memory by copies of 16 bytes, STAGES - 1 panels ahead, in one stream over all tiles of the block;
// rows and frequencies are laid out so that a panel is one stretch of memory.  Every phase is summed in the order of
// the coordinates; coordinates beyond the last are zeros, which change no sum.

template <typename Terms, int COLUMNS, int TM, int TN, int DEPTH, int STEPS, int STAGES, bool WEIGHTED>
__device__ __forceinline__ void sum_tiled(
    const float* __restrict__ staged, const i64* __restrict__ staged_weights, Tiles tiles,
    const float* __restrict__ panels, const float* __restrict__ scales, int size, u64* sums
) {
    const int P = Terms::PARTS;
    const int TX = COLUMNS / TN, TY = SL_TILE / TM, THREADS = TX * TY;
    const int WX = TX < 8 ? TX : 8, WY = 32 / WX;  // a warp is 8 threads wide: few addresses in a load
    const int FLUSH_TILES = SL_FLUSH_ROWS / TM;
    __shared__ __align__(16) float xs[STAGES][DEPTH * SL_TILE];
    __shared__ __align__(16) float ws[STAGES][DEPTH * COLUMNS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tx = warp % (TX / WX) * WX + lane % WX, ty = warp / (TX / WX) * WY + lane / WX;
    const int PADDED = STEPS * DEPTH;
    const float* const columns = panels + (i64)blockIdx.x * PADDED * COLUMNS;

    int next_tile = blockIdx.y, next_step = 0, next_slot = 0;
    auto fetch = [&]() {
        if (next_tile < tiles.tiles) {
            const float* x = staged + ((i64)next_tile * PADDED + next_step * DEPTH) * SL_TILE;
            const float* w = columns + (i64)next_step * DEPTH * COLUMNS;
            #pragma unroll
            for (int e = 0; e < DEPTH * SL_TILE; e += 4 * THREADS)
                if (DEPTH * SL_TILE % (4 * THREADS) == 0 || e + 4 * threadIdx.x < DEPTH * SL_TILE)
                    copy16(&xs[next_slot][e + 4 * threadIdx.x], x + e + 4 * threadIdx.x);
            #pragma unroll
            for (int e = 0; e < DEPTH * COLUMNS; e += 4 * THREADS)
                if (DEPTH * COLUMNS % (4 * THREADS) == 0 || e + 4 * threadIdx.x < DEPTH * COLUMNS)
                    copy16(&ws[next_slot][e + 4 * threadIdx.x], w + e + 4 * threadIdx.x);
            if (++next_step == STEPS) next_step = 0, next_tile += gridDim.y;
            if (++next_slot == STAGES) next_slot = 0;
        }
        copies_end();
    };
    // frequency of column b and row of row a of a thread: by fours, so that loads are of 16 bytes
    auto column = [&](int b) { return b / 4 * TX * 4 + tx * 4 + b % 4; };
    auto row = [&](int a) { return a / 4 * TY * 4 + ty * 4 + a % 4; };

    u32 part[TN][P];
    u64 totals[WEIGHTED ? TN : 1][P];
    int waiting = 0;  // tiles in part
    #pragma unroll
    for (int b = 0; b < TN; b++)
        #pragma unroll
        for (int p = 0; p < P; p++) {
            part[b][p] = 0;
            if (WEIGHTED) totals[b][p] = 0;
        }
    auto flush = [&](int run) {
        #pragma unroll
        for (int b = 0; b < TN; b++) {
            const int j = blockIdx.x * COLUMNS + column(b);
            #pragma unroll
            for (int p = 0; p < P; p++) {
                const u64 sum = WEIGHTED ? totals[WEIGHTED ? b : 0][p]
                                         : (u64)(i64)(int)(part[b][p] - (u32)(waiting * TM) * Terms::ZERO);
                if (j < size) atomicAdd(&sums[((i64)run * P + p) * size + j], sum);
                if (WEIGHTED) totals[WEIGHTED ? b : 0][p] = 0;
                part[b][p] = 0;
            }
        }
        waiting = 0;
    };

    #pragma unroll
    for (int s = 0; s < STAGES - 1; s++) fetch();
    int slot = 0, run = -1;
    for (int tile = blockIdx.y; tile < tiles.tiles; tile += gridDim.y) {
        const int owner = tiles.owner(tile);
        if (waiting == FLUSH_TILES || (waiting && owner != run)) flush(run);
        run = owner;
        float t[TM][TN];
        #pragma unroll
        for (int a = 0; a < TM; a++)
            #pragma unroll
            for (int b = 0; b < TN; b++) t[a][b] = 0.0f;
        #pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            copies_wait<STAGES - 2>();
            __syncthreads();
            fetch();
            const float* x_panel = xs[slot] + ty * 4;
            const float* w_panel = ws[slot] + tx * 4;
            if (++slot == STAGES) slot = 0;
            #pragma unroll
            for (int k = 0; k < DEPTH; k++) {
                float x[TM], w[TN];
                #pragma unroll
                for (int a = 0; a < TM; a += 4) {
                    const float4 v = *(const float4*)(x_panel + k * SL_TILE + a * TY);
                    x[a] = v.x, x[a + 1] = v.y, x[a + 2] = v.z, x[a + 3] = v.w;
                }
                #pragma unroll
                for (int b = 0; b < TN; b += 4) {
                    const float4 v = *(const float4*)(w_panel + k * COLUMNS + b * TX);
                    w[b] = v.x, w[b + 1] = v.y, w[b + 2] = v.z, w[b + 3] = v.w;
                }
                #pragma unroll
                for (int a = 0; a < TM; a++)
                    #pragma unroll
                    for (int b = 0; b < TN; b++) t[a][b] = __fmaf_rn(x[a], w[b], t[a][b]);
            }
        }
        float scale[TN];
        #pragma unroll
        for (int b = 0; b < TN; b++) scale[b] = scales ? scales[blockIdx.x * COLUMNS + column(b)] : 1.0f;
        #pragma unroll
        for (int a = 0; a < TM; a++) {
            const u64 weight = WEIGHTED ? (u64)staged_weights[(i64)tile * SL_TILE + row(a)] : 1;
            #pragma unroll
            for (int b = 0; b < TN; b++) {
                u32 bits[P];
                Terms::of(t[a][b], scale[b], bits);
                #pragma unroll
                for (int p = 0; p < P; p++) {
                    if (WEIGHTED)
                        totals[WEIGHTED ? b : 0][p] += bits[p] * weight;
                    else
                        part[b][p] += bits[p];
                }
            }
        }
        waiting++;
    }
    if (waiting) flush(run);
}
