// The kernels themselves: the templates with the numbers of one plan (SL_DIM and others, see source.py).

#define SL_STAGE(name, Real)                                                                                           \
    extern "C" __global__ void __launch_bounds__(SL_TILE) name(                                                        \
        const Real* data, i64 row_stride, i64 column_stride, const i64* first, const int* count, const int* run,       \
        i64 base, i64 rows, int tiles, i64 origin, const i64* weights, const double* center, const double* factors,    \
        double inverse, double step, int rounded, int padded, float* staged, i64* staged_weights, int* far_count,      \
        i64* far_row, int* far_run, i64* far_weight, u64* lower, u64* upper, u64* linear, u64* counts                  \
    ) {                                                                                                                \
        const Rows<Real> X = {data, row_stride, column_stride, SL_DIM};                                                \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        const Far far = {far_count, far_row, far_run, far_weight};                                                     \
        stage_tiles<Real, SL_CLIPPED, SL_PANELS, SL_WIDTH>(                                                            \
            X, list, origin, weights, center, factors, inverse, step, rounded != 0, padded, staged, staged_weights,    \
            far, lower, upper, linear, counts                                                                          \
        );                                                                                                             \
    }

SL_STAGE(stage_float, float)
SL_STAGE(stage_double, double)

#if defined(SL_SMALL)
#define SL_SUM(name, weighted)                                                                                         \
    extern "C" __global__ void __launch_bounds__(SL_THREADS, SL_BLOCKS) name(                                          \
        const float* staged, const i64* staged_weights, const i64* first, const int* count, const int* run, i64 base,  \
        i64 rows, int tiles, const float* frequencies, const float* scales, int padded, int size, u64* sums            \
    ) {                                                                                                                \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        sum_small<SL_TERMS, SL_DIM, SL_WIDTH, SL_EACH, SL_THREADS, weighted>(                                          \
            staged, staged_weights, list, frequencies, scales, size, sums                                              \
        );                                                                                                             \
    }
SL_SUM(sum_plain, false)
SL_SUM(sum_weighted, true)
#elif defined(SL_TILED)
#define SL_SUM(name, weighted, blocks)                                                                                 \
    extern "C" __global__ void __launch_bounds__(SL_THREADS, blocks) name(                                             \
        const float* staged, const i64* staged_weights, const i64* first, const int* count, const int* run, i64 base,  \
        i64 rows, int tiles, const float* frequencies, const float* scales, int padded, int size, u64* sums            \
    ) {                                                                                                                \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        sum_tiled<SL_TERMS, SL_COLUMNS, SL_TM, SL_TN, SL_DEPTH, SL_STAGES, weighted>(                                  \
            staged, staged_weights, list, frequencies, scales, padded, size, sums                                      \
        );                                                                                                             \
    }
SL_SUM(sum_plain, false, SL_BLOCKS)
SL_SUM(sum_weighted, true, 1)
#else
#define SL_SUM(name, weighted)                                                                                         \
    extern "C" __global__ void __launch_bounds__(256) name(                                                            \
        const float* staged, const i64* staged_weights, const i64* first, const int* count, const int* run, i64 base,  \
        i64 rows, int tiles, int padded, u64* sums                                                                     \
    ) {                                                                                                                \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        sum_products<64, weighted>(staged, staged_weights, list, padded, SL_DIM, sums);                                \
    }
SL_SUM(sum_plain, false)
SL_SUM(sum_weighted, true)
#endif

#if !SL_CLIPPED
#define SL_FAR(name, Real)                                                                                             \
    extern "C" __global__ void __launch_bounds__(SL_FAR_THREADS) name(                                                 \
        const Real* data, i64 row_stride, i64 column_stride, int* far_count, i64* far_row, int* far_run,               \
        i64* far_weight, const double* center, const float* by_column, int size, u64* sums                             \
    ) {                                                                                                                \
        const Rows<Real> X = {data, row_stride, column_stride, SL_DIM};                                                \
        const Far far = {far_count, far_row, far_run, far_weight};                                                     \
        sum_far<Real, SL_FAR_EACH, SL_FAR_THREADS>(X, far, center, by_column, size, sums);                             \
    }
SL_FAR(far_float, float)
SL_FAR(far_double, double)
#endif
