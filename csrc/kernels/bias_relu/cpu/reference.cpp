// Bias per channel, then ReLU, and its gradients, in either layout: plain loops. One thread owns whole
// (image, channel) planes; of the bias' gradient, channels. Bottleneck: memory; in NHWC the planes make it
// stride over the channels.
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

template <class T>
void launch_gradient(const profkit_bias_relu_params& p, const Buffers& buffers, int threads) {
  const T* y = static_cast<const T*>(buffers.inputs[0]);
  const T* dy = static_cast<const T*>(buffers.inputs[1]);
  T* output = static_cast<T*>(buffers.output);
  if (p.direction == PROFKIT_INPUT_GRADIENT) {
    parallel(threads, [&](int thread) {
      const Range own = split(p.batch * p.channels * p.height * p.width, threads, thread);
      for (int64_t i = own.begin; i < own.end; ++i) output[i] = y[i] > 0 ? dy[i] : 0;
    });
    return;
  }
  const ImageIndex index(p.layout, p.channels, p.height, p.width);
  parallel_pairs(threads, p.channels, 1, [&](int64_t c, int64_t) {
    double sum = 0;
    for (int64_t n = 0; n < p.batch; ++n) {
      for (int64_t h = 0; h < p.height; ++h) {
        for (int64_t w = 0; w < p.width; ++w) {
          const int64_t at = index.at(n, c, h, w);
          sum += y[at] > 0 ? static_cast<double>(dy[at]) : 0;
        }
      }
    }
    output[c] = static_cast<T>(sum);
  });
}

}  // namespace

void bias_relu_reference(const profkit_bias_relu_params& params, const Buffers& buffers, int threads) {
  if (params.direction != PROFKIT_FORWARD) {
    params.dtype == PROFKIT_FLOAT64 ? launch_gradient<double>(params, buffers, threads)
                                    : launch_gradient<float>(params, buffers, threads);
    return;
  }
  params.dtype == PROFKIT_FLOAT64 ? launch<double>(params, buffers, threads)
                                  : launch<float>(params, buffers, threads);
}

}  // namespace profkit
