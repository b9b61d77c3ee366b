// Bias per channel, then ReLU, and its gradients, in either layout: plain loops. One thread owns whole
// (image, channel) planes; of the bias' gradient, channels. Bottleneck: memory; in NHWC the planes make it
// stride over the channels.
#include "kernels/bias_relu/params.h"
#include "kernels/cpu/image_index.h"
#include "kernels/cpu/loops.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

template <class T>
void launch_forward(const profkit_bias_relu_params& p, const Buffers& buffers, int threads) {
  const T* input = buffers.input_as<T>(0);
  const T* bias = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  const ImageIndex index(p.layout, p.channels, p.height, p.width);
  parallel_pixels(threads, p, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t at = index.at(n, c, h, w);
    const double value = static_cast<double>(input[at]) + static_cast<double>(bias[c]);
    output[at] = static_cast<T>(value < 0 ? 0 : value);  // NaN propagates
  });
}

template <class T>
void launch_gradient(const profkit_bias_relu_params& p, const Buffers& buffers, int threads) {
  const T* y = buffers.input_as<T>(0);
  const T* dy = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  if (p.direction == PROFKIT_INPUT_GRADIENT) {
    return elementwise<T>(buffers, threads, p.batch * p.channels * p.height * p.width,
                          [](T result, T by_result) { return result > 0 ? by_result : 0; });
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

template <class T>
void launch(const profkit_bias_relu_params& p, const Buffers& buffers, int threads) {
  p.direction == PROFKIT_FORWARD ? launch_forward<T>(p, buffers, threads)
                                 : launch_gradient<T>(p, buffers, threads);
}

}  // namespace

PROFKIT_REFERENCE(bias_relu)

}  // namespace profkit
