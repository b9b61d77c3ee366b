// Every row of the registry over random odd parameters, on arrays of exactly the size they need, against the
// reference row; weights packed ahead too. Prints how many calls were compared; the first one that differs,
// or a sanitizer's finding, ends it. Arguments: how many parameter sets per operator.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/operators.h"

namespace {

using namespace profkit;

std::mt19937_64 generator(1);

int64_t any(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(generator);
}

int64_t one_of(const std::vector<int64_t>& values) {
  return values[static_cast<size_t>(any(0, static_cast<int64_t>(values.size()) - 1))];
}

// Memory of exactly so many bytes: whoever reads or writes beyond is found.
class Exact {
 public:
  explicit Exact(size_t bytes) : bytes_(bytes) {
    if (posix_memalign(&data_, 64, bytes ? bytes : 1) != 0) std::abort();
    std::memset(data_, 0xff, bytes);  // NaN in every format: what is read before it was written shows
  }
  ~Exact() { std::free(data_); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  void* get() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

size_t elements(const Shape& shape) {
  size_t product = 1;
  for (int64_t extent : shape) product *= static_cast<size_t>(extent);
  return product;
}

template <class T>
void fill(const Exact& array) {
  std::uniform_real_distribution<T> values(T(-1), T(1));
  T* data = static_cast<T*>(array.get());
  for (size_t i = 0; i < array.bytes() / sizeof(T); ++i) data[i] = values(generator);
}

template <class T>
bool agree(const Exact& found, const Exact& wanted, double tolerance) {
  const T *a = static_cast<const T*>(found.get()), *b = static_cast<const T*>(wanted.get());
  const size_t count = wanted.bytes() / sizeof(T);
  double scale = 1.0;
  for (size_t i = 0; i < count; ++i) scale = std::fmax(scale, std::fabs(static_cast<double>(b[i])));
  for (size_t i = 0; i < count; ++i) {
    if (!(std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= tolerance * scale))
      return false;
  }
  return true;
}

template <class Params>
struct Run {
  const Params& params;
  Arrays arrays;
  size_t item;
  std::vector<std::unique_ptr<Exact>> inputs;
  Exact wanted;
  Buffers buffers;

  Run(const Params& p, const Kernel<Params>& reference)
      : params(p),
        arrays(arrays_of(p)),
        item(arrays.dtype == PROFKIT_FLOAT32 ? 4 : 8),
        wanted(elements(arrays.output) * item) {
    for (size_t i = 0; i < arrays.inputs.size(); ++i) {
      inputs.push_back(std::make_unique<Exact>(elements(arrays.inputs[i].shape) * item));
      item == 4 ? fill<float>(*inputs.back()) : fill<double>(*inputs.back());
      buffers.inputs[i] = inputs.back()->get();
    }
    buffers.output = wanted.get();
    reference.launch(params, buffers, 1);
  }

  bool matches(const Kernel<Params>& row, int threads, bool ahead) {
    const Exact workspace(row.workspace_bytes(params, threads));
    const Exact output(wanted.bytes());
    const Exact packed(ahead ? row.packing.bytes(params, threads, {}) : 0);
    Buffers call = buffers;
    call.output = output.get();
    call.workspace = workspace.get();
    if (ahead) {
      row.packing.pack(params, buffers.inputs[1], packed.get(), threads, {});
      call.packed = packed.get();
    }
    row.launch(params, call, threads);
    // Winograd's larger tiles lose digits; a wrong index costs far more.
    return item == 4 ? agree<float>(output, wanted, 2e-3) : agree<double>(output, wanted, 1e-9);
  }
};

template <class Params>
int64_t run_rows(const std::vector<Kernel<Params>>& rows, const Params& params, const std::string& words) {
  Run<Params> run(params, rows.back());
  int64_t calls = 0;
  for (const Kernel<Params>& row : rows) {
    if (!row.supports(params).empty()) continue;
    for (int threads : {1, 3}) {
      for (bool ahead : {false, true}) {
        if (ahead && (!row.packing.pack || row.packing.bytes(params, threads, {}) == 0)) continue;
        if (!run.matches(row, threads, ahead)) {
          std::fprintf(stderr, "%s differs from the reference: %s, %d threads%s\n", row.key.c_str(),
                       words.c_str(), threads, ahead ? ", packed ahead" : "");
          std::exit(1);
        }
        ++calls;
      }
    }
  }
  return calls;
}

std::string text(std::initializer_list<int64_t> numbers) {
  std::string line;
  for (int64_t number : numbers) line += std::to_string(number) + " ";
  return line;
}

int64_t any_dtype() { return any(0, 3) ? PROFKIT_FLOAT32 : PROFKIT_FLOAT64; }

int64_t out_size(int64_t size, int64_t before, int64_t after, int64_t taps, int64_t dilation,
                 int64_t stride) {
  return (size + before + after - dilation * (taps - 1) - 1) / stride + 1;
}

int64_t conv2d_calls() {
  profkit_conv2d_params p{};
  p.groups = any(0, 3) ? 1 : any(2, 3);
  p.batch = any(1, 3);
  p.in_channels = p.groups * one_of({1, 2, 3, 5, 8, 17, 40});
  p.out_channels = p.groups * one_of({1, 2, 6, 7, 16, 19, 33});
  p.kernel_h = one_of({1, 3, 3, 5, 7});
  p.kernel_w = any(0, 4) ? p.kernel_h : one_of({1, 2, 4});
  p.stride_h = one_of({1, 1, 2, 3});
  p.stride_w = any(0, 4) ? p.stride_h : one_of({1, 2});
  p.dilation_h = any(0, 5) ? 1 : 2;
  p.dilation_w = p.dilation_h;
  p.pad_top = any(0, 3), p.pad_bottom = any(0, 3), p.pad_left = any(0, 3), p.pad_right = any(0, 3);
  p.height = p.dilation_h * (p.kernel_h - 1) + any(1, 14);
  p.width = p.dilation_w * (p.kernel_w - 1) + any(1, 37);
  p.out_h = out_size(p.height, p.pad_top, p.pad_bottom, p.kernel_h, p.dilation_h, p.stride_h);
  p.out_w = out_size(p.width, p.pad_left, p.pad_right, p.kernel_w, p.dilation_w, p.stride_w);
  p.layout = any(0, 1), p.dtype = any_dtype(), p.direction = one_of({0, 0, 1, 2});
  p.bias = p.direction == PROFKIT_FORWARD && any(0, 1);
  p.activation = p.direction == PROFKIT_FORWARD && any(0, 1);
  return run_rows(
      conv2d_kernels(), p,
      text({p.batch,    p.in_channels, p.height,     p.width,      p.out_channels, p.kernel_h,  p.kernel_w,
            p.stride_h, p.stride_w,    p.pad_top,    p.pad_bottom, p.pad_left,     p.pad_right, p.dilation_h,
            p.groups,   p.bias,        p.activation, p.layout,     p.dtype,        p.direction}));
}

int64_t matmul_calls() {
  profkit_matmul_params p{};
  p.batch = any(0, 3) ? 1 : any(2, 3);
  p.m = one_of({1, 2, 5, 6, 7, 13, 48, 97}), p.n = one_of({1, 3, 8, 15, 16, 17, 33, 130});
  p.k = one_of({1, 2, 7, 64, 129, 515});
  p.transpose_a = any(0, 1), p.transpose_b = any(0, 1), p.bias = any(0, 1), p.activation = any(0, 1);
  p.dtype = any_dtype();
  return run_rows(
      matmul_kernels(), p,
      text({p.batch, p.m, p.n, p.k, p.transpose_a, p.transpose_b, p.bias, p.activation, p.dtype}));
}

int64_t pool2d_calls() {
  profkit_pool2d_params p{};
  p.batch = any(1, 3), p.channels = one_of({1, 3, 8, 17, 33});
  p.kernel_h = any(1, 4), p.kernel_w = any(0, 2) ? p.kernel_h : any(1, 4);
  p.stride_h = any(1, 3), p.stride_w = any(0, 2) ? p.stride_h : any(1, 3);
  // A window that holds padding only has no maximum: pads stay below the kernel.
  p.pad_top = any(0, p.kernel_h - 1), p.pad_bottom = any(0, p.kernel_h - 1);
  p.pad_left = any(0, p.kernel_w - 1), p.pad_right = any(0, p.kernel_w - 1);
  p.height = p.kernel_h + any(0, 12), p.width = p.kernel_w + any(0, 36);
  p.out_h = out_size(p.height, p.pad_top, p.pad_bottom, p.kernel_h, 1, p.stride_h);
  p.out_w = out_size(p.width, p.pad_left, p.pad_right, p.kernel_w, 1, p.stride_w);
  p.mode = any(0, 1), p.layout = any(0, 1), p.dtype = any_dtype(), p.direction = any(0, 3) ? 0 : 1;
  return run_rows(
      pool2d_kernels(), p,
      text({p.batch, p.channels, p.height, p.width, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad_top,
            p.pad_bottom, p.pad_left, p.pad_right, p.mode, p.layout, p.dtype, p.direction}));
}

int64_t lrn_calls() {
  profkit_lrn_params p{};
  p.batch = any(1, 3), p.channels = one_of({1, 2, 5, 16, 33}), p.height = any(1, 9), p.width = any(1, 19);
  p.size = one_of({1, 3, 5, 9}), p.layout = any(0, 1), p.dtype = any_dtype();
  p.alpha = 0.1, p.beta = any(0, 1) ? 0.75 : 0.6, p.k = 1.5;
  return run_rows(lrn_kernels(), p,
                  text({p.batch, p.channels, p.height, p.width, p.size, p.layout, p.dtype}));
}

int64_t bias_relu_calls() {
  profkit_bias_relu_params p{};
  p.batch = any(1, 3), p.channels = one_of({1, 3, 8, 17}), p.height = any(1, 9), p.width = any(1, 19);
  p.layout = any(0, 1), p.dtype = any_dtype();
  return run_rows(bias_relu_kernels(), p, text({p.batch, p.channels, p.height, p.width, p.layout, p.dtype}));
}

int64_t softmax_calls() {
  profkit_softmax_params p{};
  p.rows = any(1, 9), p.classes = one_of({1, 2, 7, 8, 9, 31, 100}), p.dtype = any_dtype();
  return run_rows(softmax_kernels(), p, text({p.rows, p.classes, p.dtype}));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  int64_t calls = 0;
  for (int round = 0; round < rounds; ++round) {
    calls +=
        conv2d_calls() + matmul_calls() + pool2d_calls() + lrn_calls() + bias_relu_calls() + softmax_calls();
  }
  std::printf("%lld\n", static_cast<long long>(calls));
}
