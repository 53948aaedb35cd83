// Rows far from the centre, in float64: the list that the staging left, FAR_ROWS rows at a time, EACH frequencies a
// thread.  Phases are summed in the order of the coordinates.

enum { FAR_ROWS = 8, FAR_COLUMNS = 32 };

template <typename Terms, typename Real, int D, int EACH, int THREADS>
__device__ __forceinline__ void sum_far(
    Rows<Real> X, Far far, const double* __restrict__ center, const float* __restrict__ by_column,
    const float* __restrict__ scales, int size, u64* sums
) {
    __shared__ __align__(16) double x[FAR_COLUMNS][FAR_ROWS];
    __shared__ i64 weights[FAR_ROWS];
    __shared__ int runs[FAR_ROWS];
    const int first = blockIdx.x * THREADS * EACH + threadIdx.x, rows = *far.count;
    u64 totals[EACH][2];
    #pragma unroll
    for (int f = 0; f < EACH; f++) totals[f][0] = totals[f][1] = 0;
    auto flush = [&](int run) {
        #pragma unroll
        for (int f = 0; f < EACH; f++) {
            const int j = first + f * THREADS;
            #pragma unroll
            for (int p = 0; p < 2; p++) {
                if (j < size) atomicAdd(&sums[((i64)run * 2 + p) * size + j], totals[f][p]);
                totals[f][p] = 0;
            }
        }
    };
    int run = -1;
    for (int at = blockIdx.y * FAR_ROWS; at < rows; at += gridDim.y * FAR_ROWS) {
        double t[FAR_ROWS][EACH];
        #pragma unroll
        for (int a = 0; a < FAR_ROWS; a++)
            #pragma unroll
            for (int f = 0; f < EACH; f++) t[a][f] = 0.0;
        __syncthreads();
        if (threadIdx.x < FAR_ROWS) {  // beyond the end: the last row, with weight 0
            const int slot = at + threadIdx.x < rows ? at + threadIdx.x : rows - 1;
            weights[threadIdx.x] = at + threadIdx.x < rows ? far.weight[slot] : 0;
            runs[threadIdx.x] = far.run[slot];
        }
        for (int k0 = 0; k0 < D; k0 += FAR_COLUMNS) {
            const int width = D - k0 < FAR_COLUMNS ? D - k0 : FAR_COLUMNS;
            __syncthreads();
            for (int e = threadIdx.x; e < FAR_ROWS * width; e += THREADS) {
                const int a = e / width, k = e % width, slot = at + a < rows ? at + a : rows - 1;
                const Real v = X.data[far.row[slot] * X.row_stride + (k0 + k) * X.column_stride];
                x[k][a] = __dsub_rn((double)v, center[k0 + k]);
            }
            __syncthreads();
            for (int k = 0; k < width; k++) {
                double w[EACH];
                #pragma unroll
                for (int f = 0; f < EACH; f++) {
                    const int j = first + f * THREADS;
                    w[f] = j < size ? (double)by_column[(i64)(k0 + k) * size + j] : 0.0;
                }
                #pragma unroll
                for (int a = 0; a < FAR_ROWS; a++)
                    #pragma unroll
                    for (int f = 0; f < EACH; f++) t[a][f] = __fma_rn(x[k][a], w[f], t[a][f]);
            }
        }
        bool mixed = false;
        for (int a = 1; a < FAR_ROWS; a++) mixed = mixed || runs[a] != runs[0];
        if (!mixed && runs[0] != run) {
            if (run >= 0) flush(run);
            run = runs[0];
        }
        #pragma unroll
        for (int a = 0; a < FAR_ROWS; a++) {
            const u64 weight = (u64)weights[a];
            #pragma unroll
            for (int f = 0; f < EACH; f++) {
                const int j = first + f * THREADS;
                u64 bits[2];
                Terms::of_far(t[a][f], scales && j < size ? (double)scales[j] : 0.0, bits);
                #pragma unroll
                for (int p = 0; p < 2; p++) {
                    const u64 units = (bits[p] - Terms::FAR_ZERO) * weight;
                    if (!mixed) totals[f][p] += units;
                    else if (j < size) atomicAdd(&sums[((i64)runs[a] * 2 + p) * size + j], units);
                }
            }
        }
    }
    if (run >= 0) flush(run);
}
