// Structured frequencies: a block of p = 2^Q of them is a chain of diagonals and Walsh-Hadamard transforms.
//
// A group of threads takes a row at a time and keeps 2^EB of its p numbers in registers.  A transform is a chain of
// levels, sums and differences of numbers whose places differ in one bit, and the order of the levels decides about
// the rounding, so it is the processor's (levels in kernels/hadamard.py).  A *pass* is up to EB levels whose bits are
// bits of the register; between passes the numbers change their threads by way of shared memory.  Tables come in the
// order in which the threads read them (kernels/cuda/structured.py, which repeats the maps of this file).

#if defined(SL_HADAMARD)

// The bit of a level: the widest first, but bits 2, 1, 0 before 5, 4, 3 in the second transform.
__device__ constexpr int level_bit(int q, int transform, int step) {
    const int bit = q - 1 - step, low = q < 3 ? q : 3, middle = q < 6 ? q : 6, behind = step - (q - middle);
    if (transform != 1 || bit >= 6) return bit;
    return behind < low ? low - 1 - behind : middle - 1 - (behind - low);
}

__device__ constexpr int pass_count(int q, int eb) { return q <= eb ? 1 : (q + eb - 1) / eb; }

__device__ constexpr int pass_levels(int q, int eb, int pass) { return q - pass * eb < eb ? q - pass * eb : eb; }

// Bits of a place that are bits of the register in a pass: those of its levels, and the highest others if too few.
__device__ constexpr u32 pass_mask(int q, int eb, int transform, int pass) {
    u32 mask = 0;
    const int levels = pass_levels(q, eb, pass);
    for (int i = 0; i < levels; i++) mask |= 1u << level_bit(q, transform, pass * eb + i);
    int missing = (q < eb ? q : eb) - levels;
    for (int bit = q - 1; bit >= 0 && missing > 0; bit--)
        if (!(mask >> bit & 1)) mask |= 1u << bit, missing--;
    return mask;
}

// Where those bits are, five bits for each.
__device__ constexpr u64 places_of(u32 mask) {
    u64 code = 0;
    for (int bit = 0, i = 0; bit < 32; bit++)
        if (mask >> bit & 1) code |= (u64)bit << 5 * i++;
    return code;
}

// Which bits of the register the levels of a pass are, in their order.
__device__ constexpr u64 ranks_of(int q, int eb, int transform, int pass) {
    u64 code = 0;
    const u32 mask = pass_mask(q, eb, transform, pass);
    for (int i = 0; i < pass_levels(q, eb, pass); i++) {
        const int bit = level_bit(q, transform, pass * eb + i);
        u64 rank = 0;
        for (int b = 0; b < bit; b++) rank += mask >> b & 1;
        code |= rank << 5 * i;
    }
    return code;
}

__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float minus(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float times(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ double minus(double a, double b) { return __dsub_rn(a, b); }
__device__ __forceinline__ double times(double a, float b) { return __dmul_rn(a, (double)b); }

// Where a place is in shared memory: every bit of it adds its own number, so that the threads of a warp meet in no bank.
template <typename Real>
struct Room;
template <>
struct Room<float> {
    static const int SIZE = SL_ROOM;
    __device__ static constexpr int step(int bit) {
        constexpr int steps[] = {SL_ROOM_STEPS};
        return steps[bit];
    }
};
template <>
struct Room<double> {
    static const int SIZE = SL_FAR_ROOM;
    __device__ static constexpr int step(int bit) {
        constexpr int steps[] = {SL_FAR_ROOM_STEPS};
        return steps[bit];
    }
};

template <typename Real, int Q, int EB, int TRANSFORM, int PASS>
struct Map {
    static const int BITS = Q < EB ? Q : EB, EACH = 1 << BITS, LEVELS = pass_levels(Q, EB, PASS);
    static const u32 MASK = pass_mask(Q, EB, TRANSFORM, PASS);
    static const u64 PLACES = places_of(MASK), RANKS = ranks_of(Q, EB, TRANSFORM, PASS);
    // place of number r of a thread, less that of its number 0
    __device__ __forceinline__ static int offset(int r) {
        int at = 0;
        #pragma unroll
        for (int i = 0; i < BITS; i++) at |= (r >> i & 1) << (int)(PLACES >> 5 * i & 31);
        return at;
    }
    // place of number 0 of thread g of the group
    __device__ __forceinline__ static int origin(int g) {
        int at = 0, used = 0;
        #pragma unroll
        for (int bit = 0; bit < Q; bit++)
            if (!(MASK >> bit & 1)) at |= (g >> used++ & 1) << bit;
        return at;
    }
    // the same in shared memory
    static const int S0 = Room<Real>::step(PLACES & 31), S1 = Room<Real>::step(PLACES >> 5 & 31);
    static const int S2 = Room<Real>::step(PLACES >> 10 & 31), S3 = Room<Real>::step(PLACES >> 15 & 31);
    static const int S4 = Room<Real>::step(PLACES >> 20 & 31);
    __device__ __forceinline__ static int room_offset(int r) {
        return (r & 1) * S0 + (r >> 1 & 1) * S1 + (r >> 2 & 1) * S2 + (r >> 3 & 1) * S3 + (r >> 4 & 1) * S4;
    }
    __device__ __forceinline__ static int room_origin(int g) {
        int at = 0, used = 0;
        #pragma unroll
        for (int bit = 0; bit < Q; bit++)
            if (!(MASK >> bit & 1)) at += (g >> used++ & 1) * Room<Real>::step(bit);
        return at;
    }
};

template <int GROUP>
__device__ __forceinline__ void group_barrier() {
    if (GROUP <= 32) __syncwarp();
    else __syncthreads();
}

// Numbers 4 i to 4 i + 3 of all threads of a group lie together.
template <int EACH, int GROUP>
struct Plane {
    __device__ __forceinline__ static void read(const float* __restrict__ plane, int g, float (&out)[EACH]) {
        if constexpr (EACH < 4) {
            #pragma unroll
            for (int r = 0; r < EACH; r++) out[r] = plane[g * EACH + r];
        } else {
            #pragma unroll
            for (int r = 0; r < EACH; r += 4) {
                const float4 v = *(const float4*)(plane + ((i64)r * GROUP + 4 * g));
                out[r] = v.x, out[r + 1] = v.y, out[r + 2] = v.z, out[r + 3] = v.w;
            }
        }
    }
};

template <typename Real, int Q, int EB, int TRANSFORMS, bool PERMUTED>
struct Chain {
    static const int BITS = Q < EB ? Q : EB, EACH = 1 << BITS, GROUP = 1 << (Q - BITS);
    static const int PASSES = pass_count(Q, EB), ROOM = Room<Real>::SIZE;

    template <int TRANSFORM, int PASS>
    __device__ __forceinline__ static void levels(Real (&a)[EACH]) {
        typedef Map<Real, Q, EB, TRANSFORM, PASS> M;
        #pragma unroll
        for (int i = 0; i < M::LEVELS; i++) {
            const int h = 1 << (int)(M::RANKS >> 5 * i & 31);
            #pragma unroll
            for (int r = 0; r < EACH; r++)
                if (!(r & h)) {
                    const Real u = a[r], v = a[r | h];
                    a[r] = plus(u, v), a[r | h] = minus(u, v);
                }
        }
    }

    template <typename From>
    __device__ __forceinline__ static void put(const Real (&a)[EACH], Real* room, int g) {
        const int at = From::room_origin(g);
        #pragma unroll
        for (int r = 0; r < EACH; r++) room[at + From::room_offset(r)] = a[r];
    }

    template <typename To>
    __device__ __forceinline__ static void get(Real (&a)[EACH], const Real* room, int g) {
        const int at = To::room_origin(g);
        #pragma unroll
        for (int r = 0; r < EACH; r++) a[r] = room[at + To::room_offset(r)];
    }

    // From the numbers times the first diagonal to those before the last factor.
    template <int TRANSFORM, int PASS>
    __device__ __forceinline__ static void run(
        Real (&a)[EACH], Real* room, const float* __restrict__ planes, const int* __restrict__ permutation, int g
    ) {
        typedef Map<Real, Q, EB, TRANSFORM, PASS> Here;
        levels<TRANSFORM, PASS>(a);
        if constexpr (PASS + 1 < PASSES) {
            put<Here>(a, room, g);
            group_barrier<GROUP>();
            get<Map<Real, Q, EB, TRANSFORM, PASS + 1>>(a, room, g);
            run<TRANSFORM, PASS + 1>(a, room, planes, permutation, g);
        } else if constexpr (TRANSFORM + 1 < TRANSFORMS) {
            typedef Map<Real, Q, EB, TRANSFORM + 1, 0> Next;
            if constexpr (PERMUTED && TRANSFORM == 0) {
                put<Here>(a, room, g);
                group_barrier<GROUP>();
                #pragma unroll
                for (int r = 0; r < EACH; r++) a[r] = room[permutation[r * GROUP + g]];
                group_barrier<GROUP>();  // what others still read is not to be overwritten
            } else if constexpr (Here::MASK != Next::MASK) {
                put<Here>(a, room, g);
                group_barrier<GROUP>();
                get<Next>(a, room, g);
            }
            float diagonal[EACH];
            Plane<EACH, GROUP>::read(planes + ((i64)(TRANSFORM + 1) << Q), g, diagonal);
            #pragma unroll
            for (int r = 0; r < EACH; r++) a[r] = times(a[r], diagonal[r]);
            run<TRANSFORM + 1, 0>(a, room, planes, permutation, g);
        }
    }

    typedef Map<Real, Q, EB, TRANSFORMS - 1, PASSES - 1> Last;
};

template <typename Terms, int Q, int EB, int TRANSFORMS, bool PERMUTED, int PADDED, int THREADS, bool WEIGHTED>
__device__ __forceinline__ void sum_hadamard(
    const float* __restrict__ staged, const i64* __restrict__ staged_weights, Tiles tiles,
    const float* __restrict__ tables, const int* __restrict__ permutations, int size, u64* sums
) {
    typedef Chain<float, Q, EB, TRANSFORMS, PERMUTED> C;
    const int P = Terms::PARTS, EACH = C::EACH, GROUP = C::GROUP, AT_ONCE = THREADS / GROUP;
    const int EACH_TILE = SL_TILE / AT_ONCE, FLUSH_TILES = SL_FLUSH_ROWS / EACH_TILE;
    __shared__ float rooms[AT_ONCE * C::ROOM];
    const int g = threadIdx.x % GROUP, group = threadIdx.x / GROUP;
    float* const room = rooms + group * C::ROOM;
    // planes: diagonals, the last factors, and the second numbers of the terms
    const float* const planes = tables + ((i64)blockIdx.x * (TRANSFORMS + 2) << Q);
    const int* const permutation = PERMUTED ? permutations + ((i64)blockIdx.x << Q) : nullptr;
    const int origin = (blockIdx.x << Q) + C::Last::origin(g);

    u32 part[WEIGHTED ? 1 : EACH][P];
    u64 totals[WEIGHTED ? EACH : 1][P];
    #pragma unroll
    for (int r = 0; r < EACH; r++)
        #pragma unroll
        for (int p = 0; p < P; p++)
            if (WEIGHTED) totals[WEIGHTED ? r : 0][p] = 0;
            else part[WEIGHTED ? 0 : r][p] = 0;
    int waiting = 0;  // tiles in part
    auto flush = [&](int run) {
        #pragma unroll
        for (int r = 0; r < EACH; r++) {
            const int j = origin + C::Last::offset(r);
            #pragma unroll
            for (int p = 0; p < P; p++) {
                u64 sum;
                if (WEIGHTED) {
                    sum = totals[WEIGHTED ? r : 0][p];
                    totals[WEIGHTED ? r : 0][p] = 0;
                } else {
                    sum = (u64)(i64)(int)(part[WEIGHTED ? 0 : r][p] - (u32)(waiting * EACH_TILE) * Terms::ZERO);
                    part[WEIGHTED ? 0 : r][p] = 0;
                }
                #pragma unroll
                for (int step = GROUP; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
                if (j < size && (GROUP >= 32 || threadIdx.x % 32 < GROUP))
                    atomicAdd(&sums[((i64)run * P + p) * size + j], sum);
            }
        }
        waiting = 0;
    };

    int run = -1;
    for (int tile = blockIdx.y; tile < tiles.tiles; tile += gridDim.y) {
        const int owner = tiles.owner(tile);
        if (waiting == FLUSH_TILES || (waiting && owner != run)) flush(run);
        run = owner;
        #pragma unroll 1
        for (int i = 0; i < EACH_TILE; i++) {
            const i64 number = (i64)tile * SL_TILE + i * AT_ONCE + group;
            const float* const row = staged + number * PADDED;
            float a[EACH], factor[EACH];
            Plane<EACH, GROUP>::read(planes, g, factor);
            #pragma unroll
            for (int r = 0; r < EACH; r++) {
                const int k = r * GROUP + g;
                a[r] = k < PADDED ? times(row[k], factor[r]) : 0.0f;
            }
            if (GROUP > 1 || PERMUTED) group_barrier<GROUP>();  // the row before has been read
            C::template run<0, 0>(a, room, planes, permutation, g);
            Plane<EACH, GROUP>::read(planes + ((i64)TRANSFORMS << Q), g, factor);
            #pragma unroll
            for (int r = 0; r < EACH; r++) a[r] = times(a[r], factor[r]);
            if (SL_SECOND) Plane<EACH, GROUP>::read(planes + ((i64)(TRANSFORMS + 1) << Q), g, factor);
            const u64 weight = WEIGHTED ? (u64)staged_weights[number] : 1;
            #pragma unroll
            for (int r = 0; r < EACH; r++) {
                u32 bits[P];
                Terms::of(a[r], factor[r], bits);
                #pragma unroll
                for (int p = 0; p < P; p++)
                    if (WEIGHTED) totals[WEIGHTED ? r : 0][p] += bits[p] * weight;
                    else part[WEIGHTED ? 0 : r][p] += bits[p];
            }
        }
        waiting++;
    }
    if (waiting) flush(run);
}

// Rows far from the centre, in float64, from the list that the staging left.
template <typename Terms, typename Real, int Q, int EB, int TRANSFORMS, bool PERMUTED, int D, int THREADS>
__device__ __forceinline__ void sum_far_hadamard(
    Rows<Real> X, Far far, const double* __restrict__ center, const float* __restrict__ tables,
    const int* __restrict__ permutations, int size, u64* sums
) {
    typedef Chain<double, Q, EB, TRANSFORMS, PERMUTED> C;
    const int EACH = C::EACH, GROUP = C::GROUP, AT_ONCE = THREADS / GROUP;
    __shared__ double rooms[AT_ONCE * C::ROOM];
    const int g = threadIdx.x % GROUP, group = threadIdx.x / GROUP, rows = *far.count;
    double* const room = rooms + group * C::ROOM;
    const float* const planes = tables + ((i64)blockIdx.x * (TRANSFORMS + 2) << Q);
    const int* const permutation = PERMUTED ? permutations + ((i64)blockIdx.x << Q) : nullptr;
    const int origin = (blockIdx.x << Q) + C::Last::origin(g);
    u64 totals[EACH][2];
    #pragma unroll
    for (int r = 0; r < EACH; r++) totals[r][0] = totals[r][1] = 0;
    auto flush = [&](int run) {
        #pragma unroll
        for (int r = 0; r < EACH; r++) {
            const int j = origin + C::Last::offset(r);
            #pragma unroll
            for (int p = 0; p < 2; p++) {
                if (j < size) atomicAdd(&sums[((i64)run * 2 + p) * size + j], totals[r][p]);
                totals[r][p] = 0;
            }
        }
    };
    int run = -1;
    for (int at = blockIdx.y * AT_ONCE; at < rows; at += gridDim.y * AT_ONCE) {
        const int slot = at + group < rows ? at + group : rows - 1;  // beyond the end: the last row, with weight 0
        const u64 weight = at + group < rows ? (u64)far.weight[slot] : 0;
        if (far.run[slot] != run) {
            if (run >= 0) flush(run);
            run = far.run[slot];
        }
        const Real* const row = X.data + far.row[slot] * X.row_stride;
        double a[EACH];
        float factor[EACH];
        Plane<EACH, GROUP>::read(planes, g, factor);
        #pragma unroll
        for (int r = 0; r < EACH; r++) {
            const int k = r * GROUP + g;
            a[r] = k < D ? times(__dsub_rn((double)row[k * X.column_stride], center[k]), factor[r]) : 0.0;
        }
        if (GROUP > 1 || PERMUTED) group_barrier<GROUP>();
        C::template run<0, 0>(a, room, planes, permutation, g);
        Plane<EACH, GROUP>::read(planes + ((i64)TRANSFORMS << Q), g, factor);
        #pragma unroll
        for (int r = 0; r < EACH; r++) a[r] = times(a[r], factor[r]);
        if (SL_SECOND) Plane<EACH, GROUP>::read(planes + ((i64)(TRANSFORMS + 1) << Q), g, factor);
        #pragma unroll
        for (int r = 0; r < EACH; r++) {
            u64 bits[2];
            Terms::of_far(a[r], (double)factor[r], bits);
            #pragma unroll
            for (int p = 0; p < 2; p++) totals[r][p] += (bits[p] - Terms::FAR_ZERO) * weight;
        }
    }
    if (run >= 0) flush(run);
}

#endif
