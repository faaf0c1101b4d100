// Pipelines as people write them in CUDA C++: copy in, kernel, copy out, cut into chunks over streams.
//
//     nvcc -O3 -arch=native -DWITH_CUBLAS -o pipelines pipelines.cu -lcublas
//     ./pipelines > pipelines.json        # takes minutes; without -DWITH_CUBLAS there is no gemm
//
// Prints one JSON object. "curves": [elements, us] of each kernel alone. "programs": "wall_us" of each round of every
// program, from the first call to the return of the synchronisation, and what the host spent on the calls of a chunk
// over 1, 4 and 16 streams, probed before and after the group of programs of the same kernel and size: "copies_us" of
// the two copies, "chunk_us" of copy, kernel, copy. Every output is compared with the uncut program's.
// record.py, beside this file, makes a record of it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>
#include <cuda_runtime.h>
#ifdef WITH_CUBLAS
#include <cublas_v2.h>
#endif

#define CHECK(call)                                                                              \
    do {                                                                                         \
        cudaError_t error = (call);                                                              \
        if (error != cudaSuccess) {                                                              \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)

constexpr int BLOCK = 256, COLUMNS = 1024, TILE = 16, MOST_STREAMS = 16, ROUNDS = 11;
constexpr int LARGEST = 1 << 24;         // elements of a program
constexpr unsigned TABLE = 1u << 26;     // floats: more than any cache holds
constexpr int PROBED_STREAMS[] = {1, 4, 16};

// ---- Kernels: light to heavy by the number of iterations, bound by memory, matrix products

__global__ void sincos(const float* in, float* out, int n, int iterations) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    for (int k = 0; k < iterations; ++k) x = sinf(x) * cosf(x);
    out[i] = x;
}

__global__ void scale(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i] + 1.0f;
}

// Sixteen passes over a table that no cache of a multiprocessor holds: bound by the card's memory.
__global__ void gather(const float* in, float* out, int n, const float* table, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = in[i];
    unsigned at = i * 2654435761u;
    for (int k = 0; k < 16; ++k) {
        sum += table[at & mask];
        at = at * 1664525u + 1013904223u;
    }
    out[i] = sum;
}

// Rows of COLUMNS floats times a square matrix.
__global__ void matmul(const float* a, float* out, int rows, const float* w) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < COLUMNS; t += TILE) {
        left[threadIdx.y][threadIdx.x] = row < rows ? a[row * COLUMNS + t + threadIdx.x] : 0.0f;
        right[threadIdx.y][threadIdx.x] = w[(t + threadIdx.y) * COLUMNS + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    if (row < rows) out[row * COLUMNS + column] = sum;
}

__global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
}

float *h_in, *h_out, *d_in, *d_out, *weights, *table;
cudaStream_t stream[MOST_STREAMS];
#ifdef WITH_CUBLAS
cublasHandle_t handle[MOST_STREAMS];
#endif

struct Work {
    const char* name;
    int granule;  // elements: chunks are multiples of it
    void (*launch)(const float* in, float* out, int n, cudaStream_t s, int stream);
};

int blocks(int n) { return (n + BLOCK - 1) / BLOCK; }

template <int N>
void run_sincos(const float* in, float* out, int n, cudaStream_t s, int) {
    sincos<<<blocks(n), BLOCK, 0, s>>>(in, out, n, N);
}

void run_scale(const float* in, float* out, int n, cudaStream_t s, int) {
    scale<<<blocks(n), BLOCK, 0, s>>>(in, out, n);
}

void run_gather(const float* in, float* out, int n, cudaStream_t s, int) {
    gather<<<blocks(n), BLOCK, 0, s>>>(in, out, n, table, TABLE - 1);
}

void run_matmul(const float* in, float* out, int n, cudaStream_t s, int) {
    int rows = n / COLUMNS;
    matmul<<<dim3(COLUMNS / TILE, (rows + TILE - 1) / TILE), dim3(TILE, TILE), 0, s>>>(in, out, rows, weights);
}

#ifdef WITH_CUBLAS
void run_gemm(const float* in, float* out, int n, cudaStream_t s, int stream) {
    const float one = 1.0f, zero = 0.0f;
    cublasSgemm(handle[stream], CUBLAS_OP_N, CUBLAS_OP_N, COLUMNS, n / COLUMNS, COLUMNS, &one, weights, COLUMNS, in,
                COLUMNS, &zero, out, COLUMNS);
}
#endif

const std::vector<Work> works = {
    {"sincos2", 1, run_sincos<2>}, {"sincos40", 1, run_sincos<40>}, {"sincos176", 1, run_sincos<176>},
    {"scale", 1, run_scale}, {"gather", 1, run_gather}, {"matmul", COLUMNS, run_matmul},
#ifdef WITH_CUBLAS
    {"gemm", COLUMNS, run_gemm},
#endif
};

// ---- The programs

struct Program {
    const Work* work;
    int elements, chunks, streams;
    bool breadth;
    std::vector<double> wall_us;
};

// Issues the program and waits for it: microseconds.
double run(const Program& p) {
    int units = p.elements / p.work->granule, size = (units + p.chunks - 1) / p.chunks * p.work->granule;
    auto first = [&](int i) { return i * size; };
    auto count = [&](int i) { return std::min(size, p.elements - first(i)); };
    auto in = [&](int i) {
        CHECK(cudaMemcpyAsync(d_in + first(i), h_in + first(i), count(i) * sizeof(float), cudaMemcpyHostToDevice,
                              stream[i % p.streams]));
    };
    auto go = [&](int i) {
        p.work->launch(d_in + first(i), d_out + first(i), count(i), stream[i % p.streams], i % p.streams);
    };
    auto out = [&](int i) {
        CHECK(cudaMemcpyAsync(h_out + first(i), d_out + first(i), count(i) * sizeof(float), cudaMemcpyDeviceToHost,
                              stream[i % p.streams]));
    };
    auto begin = std::chrono::steady_clock::now();
    if (p.breadth) {
        for (int i = 0; i < p.chunks; ++i) in(i);
        for (int i = 0; i < p.chunks; ++i) go(i);
        for (int i = 0; i < p.chunks; ++i) out(i);
    } else {
        for (int i = 0; i < p.chunks; ++i) { in(i); go(i); out(i); }
    }
    CHECK(cudaDeviceSynchronize());
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<Program> programs_of(const Work& work, int elements) {
    std::vector<Program> programs;
    for (int chunks : {1, 2, 3, 4, 8, 16, 32, 64})
        for (int streams : {1, 2, 4, 8, 16})
            for (bool breadth : {false, true})
                if (streams <= chunks && (chunks > 1 || !breadth))
                    programs.push_back({&work, elements, chunks, streams, breadth, {}});
    return programs;
}

void verify(const Program& p, const std::vector<float>& expected) {
    for (int k = 0; k < p.elements; ++k)
        if (!(std::abs(h_out[k] - expected[k]) <= 1e-3f * (1 + std::abs(expected[k])))) {
            std::fprintf(stderr, "%s of %d elements: wrong output with %d chunks over %d streams\n", p.work->name,
                         p.elements, p.chunks, p.streams);
            std::exit(1);
        }
}

// The programs in a new order in each round; the first one warms up and verifies.
void measure(std::vector<Program>& programs, std::mt19937& rng) {
    int elements = programs[0].elements;
    run(programs[0]);
    run(programs[0]);
    std::vector<float> expected(h_out, h_out + elements);
    std::vector<int> order(programs.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = -1; round < ROUNDS; ++round) {
        std::shuffle(order.begin(), order.end(), rng);
        for (int i : order) {
            if (round >= 0) {
                programs[i].wall_us.push_back(run(programs[i]));
                continue;
            }
            std::memset(h_out, 0xff, elements * sizeof(float));  // NaN
            CHECK(cudaMemset(d_out, 0xff, elements * sizeof(float)));
            run(programs[i]);
            verify(programs[i], expected);
        }
    }
}

// ---- What is known beside them

// Microseconds of a launch: chains of two lengths behind a spinning kernel that holds the stream until all is queued.
// Its arrays are in no cache. Those of a program whose arrays fit the card's second-level cache may well be.
double alone_us(const Work& work, int elements) {
    cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    std::vector<double> found;
    for (int round = 0; round < 5; ++round) {
        float ms[2];
        int lengths[2] = {4, 20};
        for (int k = 0; k < 2; ++k) {
            CHECK(cudaMemsetAsync(table, 0, TABLE * sizeof(float), stream[0]));  // fills the caches
            spin<<<1, 1, 0, stream[0]>>>(600000);
            CHECK(cudaEventRecord(a, stream[0]));
            for (int i = 0; i < lengths[k]; ++i) {  // each on elements of its own, as chunks are
                size_t at = size_t(i) * elements % LARGEST;
                work.launch(d_in + at, d_out + at, elements, stream[0], 0);
            }
            CHECK(cudaEventRecord(b, stream[0]));
            CHECK(cudaStreamSynchronize(stream[0]));
            CHECK(cudaEventElapsedTime(&ms[k], a, b));
        }
        found.push_back((ms[1] - ms[0]) * 1e3 / (lengths[1] - lengths[0]));
    }
    std::nth_element(found.begin(), found.begin() + 2, found.end());
    return found[2];
}

// Microseconds that the host spends on the calls of a chunk, one of 64 over some streams: two copies and, if told, a
// kernel between them.
double issue_us(int streams, bool kernels) {
    constexpr int CHUNKS = 64, N = 16384;
    constexpr size_t BYTES = N * sizeof(float);
    std::vector<double> found;
    for (int round = 0; round < 21; ++round) {
        auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < CHUNKS; ++i) {
            int first = i * N;
            cudaStream_t s = stream[i % streams];
            CHECK(cudaMemcpyAsync(d_in + first, h_in + first, BYTES, cudaMemcpyHostToDevice, s));
            if (kernels) run_sincos<2>(d_in + first, d_out + first, N, s, 0);
            CHECK(cudaMemcpyAsync(h_out + first, d_out + first, BYTES, cudaMemcpyDeviceToHost, s));
        }
        std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
        found.push_back(took.count() / CHUNKS);
        CHECK(cudaDeviceSynchronize());
    }
    std::nth_element(found.begin(), found.begin() + 10, found.end());
    return found[10];
}

void print_calls(const char* name) {
    std::printf("\"%s\": {", name);
    const char* comma = "";
    for (int streams : {1, 2, 4, 8, 16}) {
        std::printf("%s\"%d\": [%.3f, %.3f]", comma, streams, issue_us(streams, false), issue_us(streams, true));
        comma = ", ";
    }
    std::printf("}, ");
}

void print_curve(const Work& work) {
    std::printf("\"%s\": [", work.name);
    const char* comma = "";
    for (int n = 1024; n <= LARGEST; n *= 2) {
        std::printf("%s[%d, %.3f]", comma, n, alone_us(work, n));
        comma = ", ";
        int between = n / 2 * 3;
        if (between >= 2 * COLUMNS && between < LARGEST) std::printf(", [%d, %.3f]", between, alone_us(work, between));
    }
    std::printf("]");
}

// The calls' probes on either side of the programs, for the host changes its speed within a run.
void print_programs(const Work& work, int elements, std::mt19937& rng, const char*& comma) {
    std::vector<Program> programs = programs_of(work, elements);
    double copies_us[3], chunk_us[3];
    for (int k = 0; k < 3; ++k) copies_us[k] = issue_us(PROBED_STREAMS[k], false);
    for (int k = 0; k < 3; ++k) chunk_us[k] = issue_us(PROBED_STREAMS[k], true);
    measure(programs, rng);
    for (int k = 0; k < 3; ++k) {
        copies_us[k] = (copies_us[k] + issue_us(PROBED_STREAMS[k], false)) / 2;
        chunk_us[k] = (chunk_us[k] + issue_us(PROBED_STREAMS[k], true)) / 2;
    }
    for (const Program& p : programs) {
        std::printf("%s\n{\"kernel\": \"%s\", \"elements\": %d, \"chunks\": %d, \"streams\": %d, ", comma, work.name,
                    p.elements, p.chunks, p.streams);
        std::printf("\"order\": \"%s\", ", p.breadth ? "breadth-first" : "depth-first");
        std::printf("\"copies_us\": [%.3f, %.3f, %.3f], ", copies_us[0], copies_us[1], copies_us[2]);
        std::printf("\"chunk_us\": [%.3f, %.3f, %.3f], \"wall_us\": [", chunk_us[0], chunk_us[1], chunk_us[2]);
        for (size_t i = 0; i < p.wall_us.size(); ++i) std::printf("%s%.2f", i ? ", " : "", p.wall_us[i]);
        std::printf("]}");
        comma = ",";
    }
}

void set_up(std::mt19937& rng) {
    CHECK(cudaMallocHost(&h_in, LARGEST * sizeof(float)));
    CHECK(cudaMallocHost(&h_out, LARGEST * sizeof(float)));
    CHECK(cudaMalloc(&d_in, 2 * LARGEST * sizeof(float)));
    CHECK(cudaMalloc(&d_out, 2 * LARGEST * sizeof(float)));
    CHECK(cudaMalloc(&weights, COLUMNS * COLUMNS * sizeof(float)));
    CHECK(cudaMalloc(&table, TABLE * sizeof(float)));
    CHECK(cudaMemset(table, 0, TABLE * sizeof(float)));
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (int i = 0; i < LARGEST; ++i) h_in[i] = uniform(rng);
    CHECK(cudaMemcpy(weights, h_in, COLUMNS * COLUMNS * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_in, 0, 2 * LARGEST * sizeof(float)));
    for (int s = 0; s < MOST_STREAMS; ++s) {
        CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
#ifdef WITH_CUBLAS
        cublasCreate(&handle[s]);
        cublasSetStream(handle[s], stream[s]);
#endif
    }
}

int main() {
    std::mt19937 rng(1);
    set_up(rng);
    cudaDeviceProp card;
    CHECK(cudaGetDeviceProperties(&card, 0));
    int threads = card.multiProcessorCount * card.maxThreadsPerMultiProcessor;
    std::printf("{\"card\": \"%s\", \"threads\": %d, ", card.name, threads);
    print_calls("calls_us");
    std::printf("\"curves\": {");
    const char* comma = "";
    for (const Work& work : works) {
        std::printf("%s", comma);
        print_curve(work);
        comma = ", ";
    }
    std::printf("}, \"programs\": [");
    comma = "";
    for (int elements : {1 << 18, 1 << 20, 3 << 20, 1 << 22, 1 << 24})
        for (const Work& work : works) print_programs(work, elements, rng, comma);
    std::printf("\n], ");
    print_calls("calls_after_us");
    std::printf("\"rounds\": %d}\n", ROUNDS);
    return 0;
}
