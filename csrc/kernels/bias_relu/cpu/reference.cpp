// Bias per channel, then ReLU, in either layout: plain loops. One thread owns whole (image, channel) planes.
// Bottleneck: memory; in NHWC the planes make it stride over the channels.
#include "kernels/bias_relu/params.h"
#include "kernels/cpu/image_index.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

template <class T>
void launch(const profkit_bias_relu_params& p, const Buffers& buffers, int threads) {
  const T* input = static_cast<const T*>(buffers.inputs[0]);
  const T* bias = static_cast<const T*>(buffers.inputs[1]);
  T* output = static_cast<T*>(buffers.output);
  const ImageIndex index(p.layout, p.channels, p.height, p.width);
  parallel_pairs(threads, p.batch, p.channels, [&](int64_t n, int64_t c) {
    for (int64_t h = 0; h < p.height; ++h) {
      for (int64_t w = 0; w < p.width; ++w) {
        const int64_t at = index.at(n, c, h, w);
        const double value = static_cast<double>(input[at]) + static_cast<double>(bias[c]);
        output[at] = static_cast<T>(value < 0 ? 0 : value);  // NaN propagates
      }
    }
  });
}

}  // namespace

void bias_relu_reference(const profkit_bias_relu_params& params, const Buffers& buffers, int threads) {
  params.dtype == PROFKIT_FLOAT64 ? launch<double>(params, buffers, threads)
                                  : launch<float>(params, buffers, threads);
}

}  // namespace profkit
