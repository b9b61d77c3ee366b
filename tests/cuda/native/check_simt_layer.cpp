// Tiny kernels that break one rule each, and their twins that keep it: a check of the host SIMT layer itself.
// Every kernel of 64 threads writes 63, 62, ... 0 when it is right. Prints the results, or the layer's error.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "simt_launch.h"

namespace {

using profkit::cuda::copy_async;
using profkit::cuda::copy_async_commit;
using profkit::cuda::copy_async_wait;
using profkit::cuda::kFullWarp;

constexpr int kThreads = 64;

int thread() { return static_cast<int>(threadIdx.x); }
int lane() { return thread() % 32; }
float own_value() { return static_cast<float>(thread()); }

template <bool kIsWrong>
void divergent_barrier(const float*, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  tile[thread()] = own_value();
  if (kIsWrong && thread() < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[thread()] = tile[63 - thread()];
}

template <bool kIsWrong>
void exit_before_barrier(const float*, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  tile[thread()] = own_value();
  if (kIsWrong && thread() == 5) return;
  __syncthreads();
  out[thread()] = tile[63 - thread()];
}

// Lane i gets the value of lane 31 - i, which belongs elsewhere in `out`; anything else, nowhere.
void put(float value, float* out) {
  if (value >= 0.0f && value < 64.0f) out[63 - static_cast<int>(value)] = value;
}

template <bool kIsWrong>
void mask_without_own_lane(const float*, float* out) {
  const unsigned mask = kIsWrong && lane() >= 16 ? 0x0000ffffu : kFullWarp;
  put(__shfl_xor_sync(mask, own_value(), 31, 32), out);
}

// Of two segments the second one sees the first, which keeps its own values: those of the second get lost.
template <bool kIsWrong>
void exchange_beyond_width(const float*, float* out) {
  out[63 - thread()] = NAN;
  __syncwarp();
  put(__shfl_xor_sync(kFullWarp, own_value(), 31, kIsWrong ? 16 : 32), out);
}

template <bool kIsWrong>
void source_outside_mask(const float*, float* out) {
  const unsigned half = lane() < 16 ? 0x0000ffffu : 0xffff0000u;
  put(__shfl_xor_sync(kIsWrong ? half : kFullWarp, own_value(), 31, 32), out);
}

template <bool kIsWrong>
void exited_lane_in_mask(const float*, float* out) {
  if (kIsWrong && lane() == 31) return;
  put(__shfl_xor_sync(kFullWarp, own_value(), 31, 32), out);
}

template <bool kIsWrong>
void different_masks(const float*, float* out) {
  const unsigned mask = kIsWrong && lane() == 3 ? 0x7fffffffu : kFullWarp;
  put(__shfl_xor_sync(mask, own_value(), 31, 32), out);
}

template <bool kIsWrong>
void deadlock(const float*, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  tile[thread()] = own_value();
  if (!kIsWrong || lane() < 16) __syncwarp();
  __syncthreads();
  if (kIsWrong && lane() >= 16) __syncwarp();
  out[thread()] = tile[63 - thread()];
}

template <bool kIsWrong>
void shared_bound(const float*, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  tile[thread()] = own_value();
  __syncthreads();
  out[thread()] = tile[(kIsWrong ? 64 : 63) - thread()];
}

template <bool kIsWrong>
void dynamic_shared_bound(const float*, float* out) {
  PROFKIT_DYNAMIC_SHARED(float, tile);
  tile[thread() + (kIsWrong ? 1 : 0)] = own_value();
  __syncthreads();
  out[thread()] = tile[63 - thread()];
}

template <bool kIsWrong>
void global_bound(const float* in, float* out) {
  out[thread()] = in[(kIsWrong ? 64 : 63) - thread()];
}

template <bool kIsWrong>
void uninitialised_shared(const float*, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  if (!kIsWrong || thread() < 63) tile[thread()] = own_value();
  __syncthreads();
  out[thread()] = tile[63 - thread()];
}

template <bool kIsWrong>
void copy_without_wait(const float* in, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  copy_async<4>(tile + thread(), in + thread(), true);
  copy_async_commit();
  if (!kIsWrong) copy_async_wait<0>();
  __syncthreads();
  out[thread()] = tile[63 - thread()];
}

template <bool kIsWrong>
void copy_waited_for_too_late(const float* in, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  copy_async<4>(tile + thread(), in + thread(), true);
  copy_async_commit();
  copy_async_wait<kIsWrong ? 1 : 0>();
  __syncthreads();
  out[thread()] = tile[63 - thread()];
  copy_async_wait<0>();
}

template <bool kIsWrong>
void copy_without_alignment(const float* in, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads + 4]);
  if (thread() < 16) copy_async<16>(tile + thread() * 4 + (kIsWrong ? 1 : 0), in + thread() * 4, true);
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  out[thread()] = tile[63 - thread()];
}

template <bool kIsWrong>
void matrix_row_without_alignment(const float*, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  tile[thread()] = own_value();
  __syncthreads();
  uint32_t values[4];
  profkit::cuda::load_matrices<false>(values, tile + lane() % 8 * 4 + (kIsWrong ? 1 : 0));
  out[thread()] = tile[63 - thread()];
}

template <bool kIsWrong>
void copy_into_what_is_read(const float* in, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  tile[thread()] = own_value();
  __syncthreads();
  const float value = tile[63 - thread()];
  if (!kIsWrong) __syncthreads();
  copy_async<4>(tile + thread(), in + thread(), true);
  copy_async_commit();
  __syncthreads();
  copy_async_wait<0>();
  out[thread()] = value;
}

template <bool kIsWrong>
void missing_warp_sync(const float*, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  tile[thread()] = own_value();
  if (!kIsWrong) __syncwarp();
  put(tile[thread() ^ 31], out);
}

// A shuffle brings values together, not memory.
template <bool kIsWrong>
void shuffle_as_fence(const float*, float* out) {
  PROFKIT_SHARED(float, tile, [kThreads]);
  tile[thread()] = own_value();
  const int source = __shfl_xor_sync(kFullWarp, thread(), 31, 32);
  if (!kIsWrong) __syncwarp();
  put(tile[source], out);
}

// Of two blocks, each adds half of the result.
template <bool kIsWrong>
void blocks_add(const float*, float* out) {
  const float half = (63.0f - own_value()) / 2;
  if (kIsWrong) {
    out[thread()] += half;
  } else {
    atomicAdd(out + thread(), half);
  }
}

// Both blocks write: wrong where it is the same place.
template <bool kIsWrong>
void blocks_overwrite(const float*, float* out) {
  if (kIsWrong || thread() / 32 == static_cast<int>(blockIdx.x)) out[thread()] = 63.0f - own_value();
}

template <bool kIsWrong>
void too_much_static_shared(const float*, float* out) {
  PROFKIT_SHARED(float, first, [12 * 1024 - kThreads]);
  PROFKIT_SHARED(float, second, [kIsWrong ? 2 * kThreads : kThreads]);
  first[thread()] = own_value();
  second[thread()] = 0.0f;
  __syncthreads();
  out[thread()] = first[63 - thread()] + second[63 - thread()];
}

using Start = void (*)(const float* in, float* out);

template <auto kernel, unsigned kBlocks = 1>
void start(const float* in, float* out) {
  simt::start<kernel>(dim3(kBlocks), dim3(kThreads), kThreads * sizeof(float), in, out);
}

// Mistakes of a launch have one kernel.
template <unsigned kThreadsOfBlock>
void start_with_threads(const float* in, float* out) {
  simt::start<mask_without_own_lane<false>>(dim3(1), dim3(kThreadsOfBlock), 0, in, out);
}
template <unsigned kBlocksInY>
void start_with_grid(const float* in, float* out) {
  simt::start<global_bound<false>>(dim3(1, kBlocksInY), dim3(kThreads), 0, in, out);
}
template <size_t kDynamicSharedBytes>
void start_with_shared(const float* in, float* out) {
  profkit::CudaCall call;
  call.device.shared_bytes_per_block = kThreads * sizeof(float);
  profkit::launch<dynamic_shared_bound<false>>({dim3(1), dim3(kThreads), kDynamicSharedBytes}, call, in, out);
}

struct Pair {
  Start right, wrong;
};

#define PROFKIT_PAIR(kernel)                               \
  {                                                        \
    #kernel, { start<kernel<false>>, start<kernel<true>> } \
  }
#define PROFKIT_PAIR_OF_BLOCKS(kernel)                           \
  {                                                              \
    #kernel, { start<kernel<false>, 2>, start<kernel<true>, 2> } \
  }

const std::map<std::string, Pair>& pairs() {
  static const std::map<std::string, Pair> all = {
      PROFKIT_PAIR(divergent_barrier),
      PROFKIT_PAIR(exit_before_barrier),
      PROFKIT_PAIR(mask_without_own_lane),
      PROFKIT_PAIR(source_outside_mask),
      PROFKIT_PAIR(exited_lane_in_mask),
      PROFKIT_PAIR(different_masks),
      PROFKIT_PAIR(deadlock),
      PROFKIT_PAIR(shared_bound),
      PROFKIT_PAIR(dynamic_shared_bound),
      PROFKIT_PAIR(global_bound),
      PROFKIT_PAIR(uninitialised_shared),
      PROFKIT_PAIR(copy_without_wait),
      PROFKIT_PAIR(copy_waited_for_too_late),
      PROFKIT_PAIR(copy_without_alignment),
      PROFKIT_PAIR(copy_into_what_is_read),
      PROFKIT_PAIR(matrix_row_without_alignment),
      PROFKIT_PAIR(exchange_beyond_width),
      PROFKIT_PAIR(missing_warp_sync),
      PROFKIT_PAIR(shuffle_as_fence),
      PROFKIT_PAIR_OF_BLOCKS(blocks_add),
      PROFKIT_PAIR_OF_BLOCKS(blocks_overwrite),
      PROFKIT_PAIR(too_much_static_shared),
      {"mask_outside_block", {start_with_threads<64>, start_with_threads<40>}},
      {"block_too_large", {start_with_threads<64>, start_with_threads<1056>}},
      {"more_shared_than_the_device_has",
       {start_with_shared<kThreads * sizeof(float)>, start_with_shared<kThreads * sizeof(float) + 1>}},
      {"grid_too_large", {start_with_grid<1>, start_with_grid<65536>}},
  };
  return all;
}

struct Freed {
  void operator()(float* memory) const { std::free(memory); }
};
std::unique_ptr<float, Freed> device_memory() {
  return std::unique_ptr<float, Freed>(static_cast<float*>(std::aligned_alloc(16, kThreads * sizeof(float))));
}

}  // namespace

// check_simt_layer NAME right|wrong ORDER; without arguments: the names.
int main(int count, char** words) try {
  if (count < 4) {
    for (const auto& [name, pair] : pairs()) std::printf("%s\n", name.c_str());
    return 0;
  }
  const std::string order = words[3];
  simt::set_order(order == "ascending"    ? simt::Order::ascending
                  : order == "descending" ? simt::Order::descending
                                          : simt::Order::random,
                  3);
  const auto in = device_memory(), out = device_memory();
  for (int i = 0; i < kThreads; ++i) {
    in.get()[i] = static_cast<float>(i);
    out.get()[i] = 0.0f;
  }
  const Pair& pair = pairs().at(words[1]);
  (std::strcmp(words[2], "wrong") == 0 ? pair.wrong : pair.right)(in.get(), out.get());
  for (int i = 0; i < kThreads; ++i) std::printf("%g ", static_cast<double>(out.get()[i]));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
