"""The CUDA source of the built-in kernels, and the declaration of the argument that every kernel takes."""

MOST_ARRAYS = 4
# Of the stand-in's parameter: the bits of a slice's nanoseconds and of a block's slices, and behind them the number of
# the launch, which launches so far apart that none of them overlap may share.
NS_BITS, SLICES_BITS, LAUNCHES = 40, 8, 1 << 15

PRELUDE = f"""
#define MOST_ARRAYS {MOST_ARRAYS}
struct Arrays {{
    long long elements, parameter;
    long long inputs, outputs;
    const unsigned char* in[MOST_ARRAYS];
    long long in_width[MOST_ARRAYS];  // bytes per element
    unsigned char* out[MOST_ARRAYS];
    long long out_width[MOST_ARRAYS];
}};
"""
# The loops over arrays are unrolled so that the struct is indexed by constants and stays in constant memory.
BUILT_IN_SOURCE = (
    PRELUDE
    + f"enum {{ NS_BITS = {NS_BITS}, SLICES_BITS = {SLICES_BITS}, LAUNCHES = {LAUNCHES} }};"
    + r"""
__device__ __forceinline__ long long thread_index() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }

__device__ __forceinline__ float sum_of_inputs(const Arrays& a, long long i) {
    float x = 0.0f;
    #pragma unroll
    for (int k = 0; k < MOST_ARRAYS; ++k) {
        if (k < a.inputs) {
            const int floats = (int)(a.in_width[k] >> 2);
            const float* in = (const float*)a.in[k] + i * floats;
            for (int j = 0; j < floats; ++j) x += in[j];
        }
    }
    return x;
}

__device__ __forceinline__ void to_outputs(const Arrays& a, long long i, float x) {
    #pragma unroll
    for (int k = 0; k < MOST_ARRAYS; ++k) {
        if (k < a.outputs) {
            const int floats = (int)(a.out_width[k] >> 2);
            float* out = (float*)a.out[k] + i * floats;
            for (int j = 0; j < floats; ++j) out[j] = x;
        }
    }
}

// Output k of element i is input k (the last one where there are fewer), cut short or repeated to its width.
__device__ __forceinline__ void pass_through(const Arrays& a, long long i) {
    const unsigned char* in = a.in[0];
    int in_width = (int)a.in_width[0];
    if (a.inputs == 0) return;
    #pragma unroll
    for (int k = 0; k < MOST_ARRAYS; ++k) {
        if (k < a.inputs) { in = a.in[k]; in_width = (int)a.in_width[k]; }
        if (k < a.outputs) {
            const int out_width = (int)a.out_width[k];
            const unsigned char* from = in + i * in_width;
            unsigned char* to = a.out[k] + i * out_width;
            if (((in_width | out_width | (int)(size_t)from | (int)(size_t)to) & 3) == 0) {
                for (int b = 0, s = 0; b < out_width; b += 4, s = s + 4 < in_width ? s + 4 : 0)
                    *(unsigned*)(to + b) = *(const unsigned*)(from + s);
            } else {
                for (int b = 0, s = 0; b < out_width; ++b, s = s + 1 < in_width ? s + 1 : 0) to[b] = from[s];
            }
        }
    }
}

extern "C" __global__ void streamsim_sincos(const Arrays a) {
    const long long i = thread_index();
    if (i >= a.elements) return;
    float x = sum_of_inputs(a, i);
    const int iterations = (int)a.parameter;
    for (int n = 0; n < iterations; ++n) x = sinf(x) * cosf(x);
    to_outputs(a, i, x);
}

extern "C" __global__ void streamsim_vector_add(const Arrays a) {
    const long long i = thread_index();
    if (i < a.elements) to_outputs(a, i, sum_of_inputs(a, i));
}

extern "C" __global__ void streamsim_copy(const Arrays a) {
    const long long i = thread_index();
    if (i < a.elements) pass_through(a, i);
}

extern "C" __global__ void streamsim_sleep(const Arrays a) {
    const long long start = clock64();
    const long long i = thread_index();
    if (i >= a.elements) return;
    pass_through(a, i);
    while (clock64() - start < a.parameter) {}
}

__device__ __forceinline__ long long timer_ns() {
    long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

// Time by the card's timer, which runs on at one pace when the clock changes. It ticks once in a microsecond on some
// cards; between its ticks, and before the first one seen, cycles count at the pace at which they went since then.
struct Stopwatch {
    long long begun, first_cycle, first_ns;

    __device__ __forceinline__ void start() {
        begun = clock64();
        const long long ns = timer_ns();
        do {
            first_ns = timer_ns();
            first_cycle = clock64();
        } while (first_ns == ns);
    }

    __device__ __forceinline__ void wait_until(long long duration_ns) const {
        long long ns = first_ns, cycle = first_cycle, passed_ns;
        do {
            const long long now_ns = timer_ns(), now = clock64();
            if (now_ns != ns) { ns = now_ns; cycle = now; }
            passed_ns = ns - first_ns;
            if (passed_ns > 0) {
                const float ns_a_cycle = (float)passed_ns / (float)(cycle - first_cycle);
                passed_ns += (long long)(ns_a_cycle * (float)(now - cycle + first_cycle - begun));
            }
        } while (passed_ns < duration_ns);
    }
};

// By the whole grid; what is shorter than the output is repeated. No division in the loop: it would cost registers.
template <typename Word>
__device__ __forceinline__ void pass_words(unsigned char* to, long long bytes, const unsigned char* from,
                                           long long length) {
    const long long words = bytes / sizeof(Word), stride = (long long)gridDim.x * blockDim.x;
    if (thread_index() < words) {
        const long long period = length < bytes ? length / sizeof(Word) : words;
        const long long step = stride % period;
        long long at = thread_index() % period;
        for (long long i = thread_index(); i < words; i += stride) {
            ((Word*)to)[i] = ((const Word*)from)[at];
            at += step;
            if (at >= period) at -= period;
        }
    }
    for (long long i = words * sizeof(Word) + thread_index(); i < bytes; i += stride) to[i] = from[i % length];
}

__device__ __forceinline__ void pass_regions(const Arrays& a) {
    for (int k = 0; k < a.outputs && a.inputs; ++k) {
        const int source = k < a.inputs ? k : (int)a.inputs - 1;
        const unsigned char* from = a.in[source];
        unsigned char* to = a.out[k];
        const long long bytes = a.out_width[k], length = a.in_width[source];
        const size_t odd = (size_t)from | (size_t)to | (length < bytes ? (size_t)length : 0);
        if (odd % sizeof(uint4) == 0) pass_words<uint4>(to, bytes, from, length);
        else if (odd % sizeof(unsigned) == 0) pass_words<unsigned>(to, bytes, from, length);
        else pass_words<unsigned char>(to, bytes, from, length);
    }
}

// Of each launch of the stand-in that is in slices: those taken, and the blocks that have found none left.
__device__ unsigned taken[LAUNCHES], ended[LAUNCHES];

// Passes the bytes through and keeps the threads of each block busy for so many nanoseconds. Or in slices, as many as
// all blocks together have, of which each takes one after another: where some find no room at once, the others do the
// work. One thread keeps the time and the other warps ask whether it is over, again and again, which takes issue slots
// from what runs beside them, as kernels do, but not from that thread, as warps would that do nothing but compute.
// `parameter`: nanoseconds of a slice, slices of a block, and the number of the launch: Busy in kernels.py.
// Bounded so that as many threads are resident as the card has (2048 a multiprocessor at most).
extern "C" __global__ void __launch_bounds__(256, 8) streamsim_spin(const Arrays a) {
    __shared__ Stopwatch stopwatch;
    __shared__ volatile int is_over;
    const long long slice_ns = a.parameter & ((1LL << NS_BITS) - 1);
    const unsigned slices = (unsigned)(a.parameter >> NS_BITS) & ((1u << SLICES_BITS) - 1);
    const unsigned launch = (unsigned)(a.parameter >> (NS_BITS + SLICES_BITS));
    const bool keeps_time = threadIdx.x == 0 && slice_ns > 0;
    if (threadIdx.x == 0) is_over = slice_ns == 0;
    __syncthreads();
    if (keeps_time) stopwatch.start();
    pass_regions(a);
    if (keeps_time) {
        if (slices == 1) {
            stopwatch.wait_until(slice_ns);
        } else {
            for (long long until_ns = slice_ns; atomicAdd(&taken[launch], 1) < slices * gridDim.x; until_ns += slice_ns)
                stopwatch.wait_until(until_ns);
            if (atomicAdd(&ended[launch], 1) == gridDim.x - 1) taken[launch] = ended[launch] = 0;
        }
        is_over = 1;
    }
    if (threadIdx.x >= warpSize)
        while (!is_over) {}
    __syncthreads();
}
"""
)
