// Local response normalisation over neighbouring channels, in either layout: plain loops, sums and power in
// double. An even size reaches one channel further back than ahead. One thread owns whole (image, channel)
// planes. Bottleneck: pow.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/image_index.h"
#include "kernels/lrn/params.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

using Params = profkit_lrn_params;

template <class T>
T normalised(const Params& p, const T* input, const ImageIndex& index, int64_t n, int64_t c, int64_t h,
             int64_t w) {
  const int64_t first = std::max<int64_t>(c - p.size / 2, 0);
  const int64_t last = std::min(c + (p.size - 1) / 2, p.channels - 1);
  double energy = 0;
  for (int64_t neighbour = first; neighbour <= last; ++neighbour) {
    const double value = static_cast<double>(input[index.at(n, neighbour, h, w)]);
    energy += value * value;
  }
  const double base = p.k + p.alpha / static_cast<double>(p.size) * energy;
  return static_cast<T>(static_cast<double>(input[index.at(n, c, h, w)]) / std::pow(base, p.beta));
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  const T* input = static_cast<const T*>(buffers.inputs[0]);
  T* output = static_cast<T*>(buffers.output);
  const ImageIndex index(p.layout, p.channels, p.height, p.width);
  parallel_pairs(threads, p.batch, p.channels, [&](int64_t n, int64_t c) {
    for (int64_t h = 0; h < p.height; ++h) {
      for (int64_t w = 0; w < p.width; ++w) {
        output[index.at(n, c, h, w)] = normalised(p, input, index, n, c, h, w);
      }
    }
  });
}

}  // namespace

void lrn_reference(const profkit_lrn_params& params, const Buffers& buffers, int threads) {
  params.dtype == PROFKIT_FLOAT64 ? launch<double>(params, buffers, threads)
                                  : launch<float>(params, buffers, threads);
}

}  // namespace profkit
