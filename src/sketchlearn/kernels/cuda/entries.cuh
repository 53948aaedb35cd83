// The kernels themselves: the templates with the numbers of one plan (SL_DIM and others, see source.py).  One of them
// is compiled at a time, SL_ENTRY, so that nobody waits for those that are not used.

#define SL_STAGE_FLOAT 1
#define SL_STAGE_DOUBLE 2
#define SL_SUM_PLAIN 3
#define SL_SUM_WEIGHTED 4
#define SL_FAR_FLOAT 5
#define SL_FAR_DOUBLE 6
#define SL_WHITEN_FLOAT 7
#define SL_WHITEN_DOUBLE 8
#define SL_BOX_FLOAT 9
#define SL_BOX_DOUBLE 10
#define SL_PICK_FLOAT 11
#define SL_PICK_DOUBLE 12

#define SL_STAGE(name, Real)                                                                                           \
    extern "C" __global__ void __launch_bounds__(SL_TILE, SL_STAGE_BLOCKS) name(                                       \
        const Real* data, i64 row_stride, i64 column_stride, const i64* first, const int* count, const int* run,       \
        i64 base, i64 rows, int tiles, i64 origin, const i64* weights, const double* center, const double* factors,    \
        double inverse, double step, int rounded, float* staged, i64* staged_weights, int* far_count, i64* far_row,    \
        int* far_run, i64* far_weight, u64* lower, u64* upper, u64* linear, u64* counts, unsigned char* fates          \
    ) {                                                                                                                \
        const Rows<Real> X = {data, row_stride, column_stride};                                                        \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        const Clip clip = {inverse, step, rounded != 0};                                                               \
        const Far far = {far_count, far_row, far_run, far_weight};                                                     \
        const Staged to = {staged, staged_weights, far, lower, upper, linear, counts, fates};                          \
        stage_tiles<Real, SL_DIM, SL_PADDED, SL_CLIPPED, SL_PANELS>(                                                   \
            X, list, origin, weights, center, factors, clip, to                                                        \
        );                                                                                                             \
    }

#if SL_ENTRY == SL_STAGE_FLOAT
SL_STAGE(stage_float, float)
#elif SL_ENTRY == SL_STAGE_DOUBLE
SL_STAGE(stage_double, double)
#endif

#if defined(SL_SMALL)
#define SL_SUM(name, weighted)                                                                                         \
    extern "C" __global__ void __launch_bounds__(SL_THREADS, SL_BLOCKS) name(                                          \
        const float* staged, const i64* staged_weights, const i64* first, const int* count, const int* run, i64 base,  \
        i64 rows, int tiles, const float* frequencies, const float* scales, int size, u64* sums                        \
    ) {                                                                                                                \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        sum_small_block<SL_TERMS, SL_DIM, SL_PADDED, SL_EACH, SL_THREADS, weighted>(                                   \
            staged, staged_weights, list, frequencies, scales, size, sums                                              \
        );                                                                                                             \
    }
#elif defined(SL_TILED)
#define SL_SUM(name, weighted)                                                                                         \
    extern "C" __global__ void __launch_bounds__(SL_THREADS, SL_BLOCKS) name(                                          \
        const float* staged, const i64* staged_weights, const i64* first, const int* count, const int* run, i64 base,  \
        i64 rows, int tiles, const float* frequencies, const float* scales, int size, u64* sums                        \
    ) {                                                                                                                \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        sum_tiled<SL_TERMS, SL_COLUMNS, SL_TM, SL_TN, SL_DEPTH, SL_PADDED / SL_DEPTH, SL_STAGES, weighted>(            \
            staged, staged_weights, list, frequencies, scales, size, sums                                              \
        );                                                                                                             \
    }
#elif defined(SL_HADAMARD)
#define SL_SUM(name, weighted)                                                                                         \
    extern "C" __global__ void __launch_bounds__(SL_THREADS, SL_BLOCKS) name(                                          \
        const float* staged, const i64* staged_weights, const i64* first, const int* count, const int* run, i64 base,  \
        i64 rows, int tiles, const float* tables, const int* permutations, int size, u64* sums                         \
    ) {                                                                                                                \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        sum_hadamard<SL_TERMS, SL_LOG, SL_EACH_LOG, SL_TRANSFORMS, SL_PERMUTED, SL_PADDED, SL_THREADS, weighted>(      \
            staged, staged_weights, list, tables, permutations, size, sums                                             \
        );                                                                                                             \
    }
#else
#define SL_SUM(name, weighted)                                                                                         \
    extern "C" __global__ void __launch_bounds__(256) name(                                                            \
        const float* staged, const i64* staged_weights, const i64* first, const int* count, const int* run, i64 base,  \
        i64 rows, int tiles, u64* sums                                                                                 \
    ) {                                                                                                                \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        sum_products<64, weighted>(staged, staged_weights, list, SL_PADDED, SL_DIM, sums);                             \
    }
#endif

#if SL_ENTRY == SL_SUM_PLAIN
SL_SUM(sum_plain, false)
#elif SL_ENTRY == SL_SUM_WEIGHTED
SL_SUM(sum_weighted, true)
#endif

#if defined(SL_HADAMARD)
#define SL_FAR(name, Real)                                                                                             \
    extern "C" __global__ void __launch_bounds__(SL_FAR_THREADS) name(                                                 \
        const Real* data, i64 row_stride, i64 column_stride, int* far_count, i64* far_row, int* far_run,               \
        i64* far_weight, const double* center, const float* tables, const int* permutations, int size, u64* sums       \
    ) {                                                                                                                \
        const Rows<Real> X = {data, row_stride, column_stride};                                                        \
        const Far far = {far_count, far_row, far_run, far_weight};                                                     \
        sum_far_hadamard<                                                                                              \
            SL_TERMS, Real, SL_LOG, SL_FAR_EACH_LOG, SL_TRANSFORMS, SL_PERMUTED, SL_DIM, SL_FAR_THREADS>(              \
            X, far, center, tables, permutations, size, sums                                                           \
        );                                                                                                             \
    }
#else
#define SL_FAR(name, Real)                                                                                             \
    extern "C" __global__ void __launch_bounds__(SL_FAR_THREADS) name(                                                 \
        const Real* data, i64 row_stride, i64 column_stride, int* far_count, i64* far_row, int* far_run,               \
        i64* far_weight, const double* center, const float* by_column, const float* scales, int size, u64* sums        \
    ) {                                                                                                                \
        const Rows<Real> X = {data, row_stride, column_stride};                                                        \
        const Far far = {far_count, far_row, far_run, far_weight};                                                     \
        sum_far<SL_TERMS, Real, SL_DIM, SL_FAR_EACH, SL_FAR_THREADS>(X, far, center, by_column, scales, size, sums);   \
    }
#endif
#if SL_ENTRY == SL_FAR_FLOAT
SL_FAR(far_float, float)
#elif SL_ENTRY == SL_FAR_DOUBLE
SL_FAR(far_double, double)
#endif

#define SL_WHITEN(name, Real)                                                                                          \
    extern "C" __global__ void __launch_bounds__(SL_TILE) name(                                                        \
        const Real* data, i64 row_stride, i64 column_stride, i64 from, i64 to, const double* center,                   \
        const double* by_column, double* out                                                                           \
    ) {                                                                                                                \
        const Rows<Real> X = {data, row_stride, column_stride};                                                        \
        whiten_rows<Real, SL_DIM>(X, from, to, center, by_column, out);                                                \
    }
#define SL_BOX(name, Real)                                                                                             \
    extern "C" __global__ void __launch_bounds__(SL_TILE) name(                                                        \
        const Real* data, i64 row_stride, i64 column_stride, const i64* first, const int* count, const int* run,       \
        i64 base, i64 rows, int tiles, const unsigned char* fates, u64* lower, u64* upper                              \
    ) {                                                                                                                \
        const Rows<Real> X = {data, row_stride, column_stride};                                                        \
        const Tiles list = {first, count, run, base, rows, tiles};                                                     \
        box_rows<Real, SL_DIM>(X, list, fates, lower, upper);                                                          \
    }
#define SL_PICK(name, Real)                                                                                            \
    extern "C" __global__ void __launch_bounds__(SL_TILE) name(                                                        \
        const Real* data, i64 row_stride, i64 column_stride, i64 rows, u64 seed, u64 groups, int* out                  \
    ) {                                                                                                                \
        const Rows<Real> X = {data, row_stride, column_stride};                                                        \
        pick_rows<Real, SL_DIM>(X, rows, seed, groups, out);                                                           \
    }
#if SL_ENTRY == SL_WHITEN_FLOAT
SL_WHITEN(whiten_float, float)
#elif SL_ENTRY == SL_WHITEN_DOUBLE
SL_WHITEN(whiten_double, double)
#elif SL_ENTRY == SL_BOX_FLOAT
SL_BOX(box_float, float)
#elif SL_ENTRY == SL_BOX_DOUBLE
SL_BOX(box_double, double)
#elif SL_ENTRY == SL_PICK_FLOAT
SL_PICK(pick_float, float)
#elif SL_ENTRY == SL_PICK_DOUBLE
SL_PICK(pick_double, double)
#endif
