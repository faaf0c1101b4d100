// What programs of streamsim code use of CUDA, on the host: each call is done when it is made, and logged on stderr.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#define __global__

struct Index {
  unsigned x;
};
inline Index blockIdx, threadIdx, blockDim{256};

using cudaError_t = int;
using cudaStream_t = long;
using cudaEvent_t = long;
using cudaGraph_t = int;
using cudaGraphExec_t = int;
enum { cudaSuccess };
enum { cudaMemcpyDefault, cudaStreamDefault, cudaStreamNonBlocking };
enum { cudaEventDefault, cudaEventDisableTiming, cudaStreamCaptureModeGlobal };
constexpr cudaStream_t cudaStreamLegacy = 0;

inline std::map<const char*, size_t> on_device, on_host;
inline long streams = 0, events = 0;

// What is captured is done when the graph is launched; all else at once.
inline bool is_capturing = false;
inline std::vector<std::function<void()>> captured;

inline void Do(std::function<void()> work) {
  if (is_capturing) captured.push_back(work);
  else work();
}

inline const char* cudaGetErrorString(cudaError_t) { return "no such error"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

// Of an address in its allocation; -1: in none.
inline long OffsetIn(const std::map<const char*, size_t>& memory, const void* address) {
  auto place = static_cast<const char*>(address);
  auto after = memory.upper_bound(place);
  if (after == memory.begin()) return -1;
  auto& [begin, size] = *--after;
  return place < begin + size ? place - begin : -1;
}

template <typename T>
cudaError_t cudaMalloc(T** made, size_t size) {
  *made = static_cast<T*>(calloc(size, 1));
  on_device[reinterpret_cast<char*>(*made)] = size;
  return 0;
}

template <typename T>
cudaError_t cudaMallocHost(T** made, size_t size) {
  *made = static_cast<T*>(calloc(size, 1));
  on_host[reinterpret_cast<char*>(*made)] = size;
  return 0;
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, int, cudaStream_t stream) {
  bool is_in = OffsetIn(on_device, to) >= 0;
  const void *host = is_in ? from : to, *device = is_in ? to : from;
  fprintf(stderr, "%s %zu %ld %ld %ld\n", is_in ? "h2d" : "d2h", size, OffsetIn(on_host, host),
          OffsetIn(on_device, device), stream);
  Do([=] { memcpy(to, from, size); });
  return 0;
}

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t size, int) {
  memcpy(to, from, size);
  return 0;
}

inline cudaError_t cudaMemset(void* to, int value, size_t size) {
  memset(to, value, size);
  return 0;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, int) {
  *made = ++streams;
  return 0;
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, int) {
  *made = ++events;
  return 0;
}

inline cudaError_t cudaStreamDestroy(cudaStream_t) { return 0; }

inline cudaError_t cudaEventDestroy(cudaEvent_t) { return 0; }

inline cudaError_t cudaFree(void* made) {
  on_device.erase(static_cast<char*>(made));
  free(made);
  return 0;
}

inline cudaError_t cudaFreeHost(void* made) {
  on_host.erase(static_cast<char*>(made));
  free(made);
  return 0;
}

inline std::map<cudaEvent_t, std::chrono::steady_clock::time_point> recorded;

inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  recorded[event] = std::chrono::steady_clock::now();
  return fprintf(stderr, "record %ld %ld\n", event, stream) < 0;
}

inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(recorded[end] - recorded[begin]).count();
  return 0;
}

inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event) {
  return fprintf(stderr, "wait %ld %ld\n", event, stream) < 0;
}

inline auto Now() {
  fprintf(stderr, "clock\n");
  return std::chrono::steady_clock::now();
}

inline void Worked(double seconds) { fprintf(stderr, "work %.0f\n", seconds * 1e9); }

inline cudaError_t cudaDeviceSynchronize() { return fprintf(stderr, "synchronise\n") < 0; }

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return fprintf(stderr, "synchronise stream %ld\n", stream) < 0;
}

inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return fprintf(stderr, "synchronise event %ld\n", event) < 0;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t, int) {
  is_capturing = true;
  return fprintf(stderr, "capture\n") < 0;
}

inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  is_capturing = false;
  return fprintf(stderr, "captured\n") < 0;
}

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, int) { return 0; }

inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  for (auto& work : captured) work();
  return fprintf(stderr, "graph\n") < 0;
}

// kernel<<<blocks, 256, 0, stream>>>, in the words of C++.
template <typename Kernel>
auto Launched(Kernel kernel, size_t blocks, cudaStream_t stream) {
  return [=](auto... arguments) {
    fprintf(stderr, "kernel %ld\n", stream);
    Do([=] {
      for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x) kernel(arguments...);
      }
    });
  };
}
