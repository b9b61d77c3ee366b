// Local response normalisation over neighbouring channels and its gradient, in either layout: plain loops,
// sums and power in double. An even size reaches one channel further back than ahead. One thread owns whole
// (image, channel) planes. Bottleneck: pow.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/image_index.h"
#include "kernels/cpu/loops.h"
#include "kernels/lrn/params.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

using Params = profkit_lrn_params;

// The base of the power: k + alpha/size * energy.
template <class T>
double base_of(const Params& p, const T* input, const ImageIndex& index, int64_t n, int64_t c, int64_t h,
               int64_t w) {
  const int64_t first = std::max<int64_t>(c - p.size / 2, 0);
  const int64_t last = std::min(c + (p.size - 1) / 2, p.channels - 1);
  double energy = 0;
  for (int64_t neighbour = first; neighbour <= last; ++neighbour) {
    const double value = static_cast<double>(input[index.at(n, neighbour, h, w)]);
    energy += value * value;
  }
  return p.k + p.alpha / static_cast<double>(p.size) * energy;
}

template <class T>
double gradient(const Params& p, const T* x, const T* dy, const ImageIndex& index, int64_t n, int64_t c,
                int64_t h, int64_t w) {
  // Channel c is seen by those whose windows reach it.
  const int64_t first = std::max<int64_t>(c - (p.size - 1) / 2, 0);
  const int64_t last = std::min(c + p.size / 2, p.channels - 1);
  double seen = 0;
  for (int64_t other = first; other <= last; ++other) {
    const int64_t at = index.at(n, other, h, w);
    const double power = std::pow(base_of(p, x, index, n, other, h, w), -p.beta - 1);
    seen += static_cast<double>(dy[at]) * static_cast<double>(x[at]) * power;
  }
  const int64_t own = index.at(n, c, h, w);
  const double direct = static_cast<double>(dy[own]) * std::pow(base_of(p, x, index, n, c, h, w), -p.beta);
  return direct - 2 * p.alpha / static_cast<double>(p.size) * p.beta * static_cast<double>(x[own]) * seen;
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  const T* x = buffers.input_as<T>(0);
  const T* dy = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  const ImageIndex index(p.layout, p.channels, p.height, p.width);
  parallel_pixels(threads, p, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t at = index.at(n, c, h, w);
    const double value = p.direction == PROFKIT_FORWARD
                             ? static_cast<double>(x[at]) / std::pow(base_of(p, x, index, n, c, h, w), p.beta)
                             : gradient(p, x, dy, index, n, c, h, w);
    output[at] = static_cast<T>(value);
  });
}

}  // namespace

PROFKIT_REFERENCE(lrn)

}  // namespace profkit
