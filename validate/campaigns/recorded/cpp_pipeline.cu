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

struct Prepared {
    int elements;
    float *h_in, *h_out, *d_in, *d_out;
    std::vector<cudaStream_t> streams;
};

static void launch(Prepared* of, int first, int n, cudaStream_t stream) {
    score<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, stream>>>(of->d_in + first, of->d_out + first, n);
    CHECK(cudaGetLastError());
}

// Memory of the host for so many floats in and out, pinned or not, of the card, and so many streams.
extern "C" Prepared* prepare(int elements, int pinned, int stream_count) {
    auto* made = new Prepared{elements};
    size_t size = elements * sizeof(float);
    if (pinned) {
        CHECK(cudaMallocHost(&made->h_in, size));
        CHECK(cudaMallocHost(&made->h_out, size));
    } else {
        made->h_in = static_cast<float*>(std::malloc(size));
        made->h_out = static_cast<float*>(std::malloc(size));
    }
    for (int i = 0; i < elements; ++i) made->h_in[i] = i / static_cast<float>(elements), made->h_out[i] = 0.0f;
    CHECK(cudaMalloc(&made->d_in, size));
    CHECK(cudaMalloc(&made->d_out, size));
    made->streams.resize(stream_count);
    for (auto& stream : made->streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return made;
}

extern "C" void run_blocking(Prepared* of, int chunks) {
    int n = of->elements / chunks;
    for (int k = 0; k < chunks; ++k) {
        int first = k * n;
        CHECK(cudaMemcpy(of->d_in + first, of->h_in + first, n * sizeof(float), cudaMemcpyHostToDevice));
        launch(of, first, n, 0);
        CHECK(cudaMemcpy(of->h_out + first, of->d_out + first, n * sizeof(float), cudaMemcpyDeviceToHost));
    }
}

// Depth-first: all of a chunk in its stream, then the next chunk in the next one.
extern "C" void run_streams(Prepared* of, int chunks) {
    int n = of->elements / chunks;
    for (int k = 0; k < chunks; ++k) {
        int first = k * n;
        cudaStream_t stream = of->streams[k % of->streams.size()];
        size_t size = n * sizeof(float);
        CHECK(cudaMemcpyAsync(of->d_in + first, of->h_in + first, size, cudaMemcpyHostToDevice, stream));
        launch(of, first, n, stream);
        CHECK(cudaMemcpyAsync(of->h_out + first, of->d_out + first, size, cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaDeviceSynchronize());
}

// Whether the output is that of one kernel over all elements.
extern "C" int is_right(Prepared* of) {
    std::vector<float> expected(of->elements);
    size_t size = of->elements * sizeof(float);
    CHECK(cudaMemcpy(of->d_in, of->h_in, size, cudaMemcpyHostToDevice));
    launch(of, 0, of->elements, 0);
    CHECK(cudaMemcpy(expected.data(), of->d_out, size, cudaMemcpyDeviceToHost));
    for (int i = 0; i < of->elements; ++i) {
        if (expected[i] != of->h_out[i]) return 0;
    }
    return 1;
}
