// The two ways of im2col: `im2col` takes one image after the other (columns of one image, small products, as
// Caffe does), `im2col_batched` all of them at once (one pass over the images, then one batched product per
// group). The products are matmul's.
#include "kernels/conv2d/cuda/columns.cuh"
#include "kernels/conv2d/cuda/image_launch.h"
#include "kernels/matmul/cuda/on_device.h"

namespace profkit {
namespace {

using Params = profkit_conv2d_params;

// What happens to `images` images at a time. Sizes: K terms of a column, P positions of an image.
class Columns {
 public:
  Columns(const Params& params, int64_t images)
      : p_(params),
        images_(images),
        is_nhwc_(params.layout == PROFKIT_NHWC),
        positions_(params.out_h * params.out_w),
        terms_(params.in_channels * params.kernel_h * params.kernel_w),
        rows_(Rows::of_images(params.layout, images, terms_, positions_)),
        group_terms_(terms_ / params.groups),
        group_results_(params.out_channels / params.groups) {}

  std::string supports(const CudaDevice& device) const {
    std::string reason = fits_cuda(p_);
    if (reason.empty()) reason = images().rows.fits("the images");
    if (reason.empty()) reason = rows_.fits("the matrix of columns");
    return reason.empty() ? matmul_on_device_supports(product(), device) : reason;
  }

  size_t workspace_bytes() const {
    const int64_t parts = has_parts() ? images_ * weight_count(p_) : 0;
    return static_cast<size_t>(columns_size() + parts) * sizeof(float);
  }

  void run(const Buffers& buffers, const CudaCall& call) const {
    float* const columns = buffers.workspace_as<float>();
    float* const parts = columns + columns_size();
    float* const output = buffers.output_as<float>();
    const float* const first = buffers.input_as<float>(0);
    const float* const second = buffers.input_as<float>(1);
    const int64_t x_image = p_.in_channels * p_.height * p_.width, y_image = p_.out_channels * positions_;
    for (int64_t n = 0; n < p_.batch; n += images_) {
      if (p_.direction == PROFKIT_FORWARD) {
        to_columns(first + n * x_image, columns, call);
        multiply({second, columns, output + n * y_image}, buffers.input_as<float>(2), call);
      } else if (p_.direction == PROFKIT_INPUT_GRADIENT) {
        multiply({second, columns, const_cast<float*>(first) + n * y_image}, nullptr, call);
        to_images(columns, output + n * x_image, call);
      } else {
        to_columns(first + n * x_image, columns, call);
        multiply({has_parts() ? parts : output, columns, const_cast<float*>(second) + n * y_image}, nullptr,
                 call);
        if (has_parts()) add_parts(parts, n == 0, output, call);
      }
    }
  }

 private:
  // A stack of matrices in memory.
  struct Stack {
    const float* data;
    int64_t row, step;
  };
  // The three arrays of the products, of which the direction makes two operands and the result.
  struct Arrays {
    const float *weights, *columns, *y;
  };

  int64_t columns_size() const { return images_ * terms_ * positions_; }
  WrittenImages images() const { return {p_, false, images_}; }
  bool has_parts() const { return p_.direction == PROFKIT_WEIGHT_GRADIENT && p_.batch > 1; }
  // Positions of all images are rows of one matrix in NHWC, unless the sum goes over them.
  bool is_joined() const { return is_nhwc_ && p_.direction != PROFKIT_WEIGHT_GRADIENT; }

  // Of one group: forward w * columns, input gradient w' * y, weight gradient y * columns', each with both
  // sides swapped and transposed in NHWC, except for the last, which is the same in both.
  profkit_matmul_params product() const {
    const int64_t positions = is_joined() ? images_ * positions_ : positions_;
    profkit_matmul_params m{};
    m.batch = is_joined() ? 1 : images_;
    m.dtype = p_.dtype;
    if (p_.direction == PROFKIT_FORWARD) {
      m.m = is_nhwc_ ? positions : group_results_;
      m.n = is_nhwc_ ? group_results_ : positions;
      m.k = group_terms_;
      m.transpose_b = is_nhwc_;
      m.bias = p_.bias;
      m.activation = p_.activation;
    } else if (p_.direction == PROFKIT_INPUT_GRADIENT) {
      m.m = is_nhwc_ ? positions : group_terms_;
      m.n = is_nhwc_ ? group_terms_ : positions;
      m.k = group_results_;
      m.transpose_a = !is_nhwc_;
    } else {
      m.m = group_results_;
      m.n = group_terms_;
      m.k = positions;
      m.transpose_a = is_nhwc_;
      m.transpose_b = !is_nhwc_;
    }
    return m;
  }

  void multiply(const Arrays& arrays, const float* bias, const CudaCall& call) const {
    const int64_t y_row = is_nhwc_ ? p_.out_channels : positions_, columns_row = rows_.extent;
    const int64_t y_group = group_results_ * (is_nhwc_ ? 1 : positions_);
    const int64_t columns_group = group_terms_ * (is_nhwc_ ? 1 : positions_);
    // Weights serve all images; their gradients are the images' own.
    const int64_t weights_step = p_.direction == PROFKIT_WEIGHT_GRADIENT ? weight_count(p_) : 0;
    for (int64_t group = 0; group < p_.groups; ++group) {
      const Stack weights{arrays.weights + group * group_results_ * group_terms_, group_terms_, weights_step};
      const Stack columns{arrays.columns + group * columns_group, columns_row, terms_ * positions_};
      const Stack y{arrays.y + group * y_group, y_row, p_.out_channels * positions_};
      const float* const group_bias = p_.bias && bias != nullptr ? bias + group * group_results_ : nullptr;
      if (p_.direction == PROFKIT_FORWARD) {
        is_nhwc_ ? start(columns, weights, y, group_bias, call)
                 : start(weights, columns, y, group_bias, call);
      } else if (p_.direction == PROFKIT_INPUT_GRADIENT) {
        is_nhwc_ ? start(y, weights, columns, nullptr, call) : start(weights, y, columns, nullptr, call);
      } else {
        start(y, columns, weights, nullptr, call);
      }
    }
  }

  void start(const Stack& a, const Stack& b, const Stack& c, const float* bias, const CudaCall& call) const {
    matmul_on_device(product(),
                     {a.data, b.data, bias, const_cast<float*>(c.data), a.row, b.row, c.row, a.step, b.step,
                      c.step, !is_nhwc_},
                     call);
  }

  void to_columns(const float* x, float* columns, const CudaCall& call) const {
    const auto by = [](int64_t divisor) { return cuda::fast_divide(static_cast<int>(divisor)); };
    const cuda::ColumnsProblem problem{cuda_problem(p_),          rows_.blocks(),
                                       by(rows_.count / images_), by(p_.kernel_h * p_.kernel_w),
                                       by(p_.kernel_w),           by(p_.out_w)};
    launch<cuda::conv2d_image_to_columns<float>>(rows_.geometry(), call, problem, x, columns);
  }

  void to_images(const float* columns, float* dx, const CudaCall& call) const {
    launch<cuda::conv2d_columns_to_image<float>>(images().rows.geometry(), call, images().problem(), columns,
                                                 dx);
  }

  void add_parts(const float* parts, bool is_first, float* dw, const CudaCall& call) const {
    launch<cuda::conv2d_add_parts<float>>(linear_geometry(weight_count(p_), cuda::RowBlocks::kThreads), call,
                                          weight_count(p_), static_cast<int>(images_), is_first, parts, dw);
  }

  const Params& p_;
  int64_t images_;
  bool is_nhwc_;
  int64_t positions_, terms_;
  Rows rows_;  // of the matrix of columns
  int64_t group_terms_, group_results_;
};

template <bool kBatched>
Columns columns_of(const Params& params) {
  return {params, kBatched ? params.batch : 1};
}

template <bool kBatched>
constexpr CudaEntry<Params> entry = {
    [](const Params& params, const CudaDevice& device) {
      return columns_of<kBatched>(params).supports(device);
    },
    [](const Params& params, const Buffers& buffers, const CudaCall& call) {
      columns_of<kBatched>(params).run(buffers, call);
    },
    [](const Params& params, const CudaCall&) { return columns_of<kBatched>(params).workspace_bytes(); }};

}  // namespace

extern const CudaEntry<Params> conv2d_im2col_cuda, conv2d_im2col_batched_cuda;
const CudaEntry<Params> conv2d_im2col_cuda = entry<false>;
const CudaEntry<Params> conv2d_im2col_batched_cuda = entry<true>;

}  // namespace profkit
