// Chunks in CUDA C++, in a library that cpp_pipeline.py loads: copied to the card, a kernel, copied back.
//
//     nvcc -O3 -arch=native -shared -Xcompiler -fPIC -o libcpp_pipeline.so cpp_pipeline.cu
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                              \
    do {                                                                                         \
        cudaError_t error = (call);                                                              \
        if (error != cudaSuccess) {                                                              \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)

constexpr int BLOCK = 256, ITERATIONS = 40;

__global__ void score(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    for (int k = 0; k < ITERATIONS; ++k) x = sinf(x) * cosf(x);
    out[i] = x;
}

static float *h_in, *h_out, *d_in, *d_out;
static std::vector<cudaStream_t> streams;

static void launch(int first, int n, cudaStream_t stream) {
    score<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, stream>>>(d_in + first, d_out + first, n);
    CHECK(cudaGetLastError());
}

// Memory of the host for so many floats in and out, pinned or not, of the card, and so many streams.
extern "C" void prepare(int elements, int pinned, int stream_count) {
    size_t size = elements * sizeof(float);
    if (pinned) {
        CHECK(cudaMallocHost(&h_in, size));
        CHECK(cudaMallocHost(&h_out, size));
    } else {
        h_in = static_cast<float*>(std::malloc(size));
        h_out = static_cast<float*>(std::malloc(size));
    }
    for (int i = 0; i < elements; ++i) h_in[i] = i / static_cast<float>(elements), h_out[i] = 0.0f;
    CHECK(cudaMalloc(&d_in, size));
    CHECK(cudaMalloc(&d_out, size));
    streams.resize(stream_count);
    for (auto& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

extern "C" void run_blocking(int elements, int chunks) {
    int n = elements / chunks;
    for (int k = 0; k < chunks; ++k) {
        int first = k * n;
        CHECK(cudaMemcpy(d_in + first, h_in + first, n * sizeof(float), cudaMemcpyHostToDevice));
        launch(first, n, 0);
        CHECK(cudaMemcpy(h_out + first, d_out + first, n * sizeof(float), cudaMemcpyDeviceToHost));
    }
}

// Depth-first: all of a chunk in its stream, then the next chunk in the next one.
extern "C" void run_streams(int elements, int chunks) {
    int n = elements / chunks;
    for (int k = 0; k < chunks; ++k) {
        int first = k * n;
        cudaStream_t stream = streams[k % streams.size()];
        CHECK(cudaMemcpyAsync(d_in + first, h_in + first, n * sizeof(float), cudaMemcpyHostToDevice, stream));
        launch(first, n, stream);
        CHECK(cudaMemcpyAsync(h_out + first, d_out + first, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaDeviceSynchronize());
}

// Whether the output is that of one kernel over all elements.
extern "C" int is_right(int elements) {
    std::vector<float> expected(elements);
    size_t size = elements * sizeof(float);
    CHECK(cudaMemcpy(d_in, h_in, size, cudaMemcpyHostToDevice));
    launch(0, elements, 0);
    CHECK(cudaMemcpy(expected.data(), d_out, size, cudaMemcpyDeviceToHost));
    for (int i = 0; i < elements; ++i) {
        if (expected[i] != h_out[i]) return 0;
    }
    return 1;
}
