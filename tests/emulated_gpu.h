// CUDA on the host, as far as the kernels use it: the threads of a block are coroutines that run one after the other
// from barrier to barrier, so the very source that a GPU runs is run here, operation for operation.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct dim3 { unsigned x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float __double2float_rn(double a) { return (float)a; }
inline int __float_as_int(float a) { int b; std::memcpy(&b, &a, 4); return b; }
inline float __int_as_float(int a) { float b; std::memcpy(&b, &a, 4); return b; }
inline long long __double_as_longlong(double a) { long long b; std::memcpy(&b, &a, 8); return b; }
inline double __longlong_as_double(long long a) { double b; std::memcpy(&b, &a, 8); return b; }
template <typename T> T __ldcg(const T* p) { return *p; }
template <typename T> T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <typename T> T atomicMax(T* p, T v) { T old = *p; if (v > old) *p = v; return old; }
using std::fmax;
using std::fmin;
using std::rint;
using std::rintf;

namespace host {
const size_t STACK = 1 << 17;
struct Fiber { ucontext_t context; std::vector<char> stack; bool done; };
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static unsigned current;
static int arriving, arrived;  // threads whose predicate holds at the barrier to come, and at the last
static void (*body)(void*);
static void* body_arguments;

static void barrier() { swapcontext(&fibers[current].context, &scheduler); }
static void trampoline() {
    body(body_arguments);
    fibers[current].done = true;
    swapcontext(&fibers[current].context, &scheduler);
}
static void run_block(unsigned threads) {
    if (fibers.size() < threads) fibers.resize(threads);
    for (unsigned i = 0; i < threads; i++) {
        Fiber& f = fibers[i];
        f.stack.resize(STACK);
        f.done = false;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = &scheduler;
        makecontext(&f.context, trampoline, 0);
    }
    for (;;) {
        unsigned finished = 0;
        for (current = 0; current < threads; current++) {
            threadIdx.x = current;
            swapcontext(&scheduler, &fibers[current].context);
            finished += fibers[current].done;
        }
        arrived = arriving, arriving = 0;
        if (finished == threads) return;
        if (finished) { std::fprintf(stderr, "threads of a block part at a barrier\n"); std::abort(); }
    }
}
template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(typename std::remove_reference<A>::type*)arguments[I]...);
}
template <typename... A>
void launch(void (*kernel)(A...), unsigned gx, unsigned gy, unsigned threads, void** arguments) {
    static void (*the_kernel)(A...);
    the_kernel = kernel, body_arguments = arguments;
    body = [](void* p) { call(the_kernel, (void**)p, std::index_sequence_for<A...>()); };
    gridDim = {gx, gy, 1}, blockDim = {threads, 1, 1};
    for (unsigned y = 0; y < gy; y++)
        for (unsigned x = 0; x < gx; x++) {
            blockIdx = {x, y, 0};
            run_block(threads);
        }
}
}  // namespace host

inline void __syncthreads() { host::barrier(); }
inline int __syncthreads_count(int predicate) {
    host::arriving += predicate != 0;
    host::barrier();
    return host::arrived;
}
inline void __syncwarp() { host::barrier(); }  // all threads of the block arrive at each
inline unsigned long long __shfl_xor_sync(unsigned, unsigned long long value, int mask) {
    static unsigned long long values[1024];
    values[threadIdx.x] = value;
    host::barrier();
    const unsigned long long other = values[threadIdx.x ^ (unsigned)mask];
    host::barrier();
    return other;
}
