#include "kernels/cuda/structs.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#define PROFKIT_LAYOUTS
// Device code, parsed for its structs only.
#include "kernels/bias_relu/cuda/elementwise.cuh"
#include "kernels/conv2d/cuda/columns.cuh"
#include "kernels/conv2d/cuda/depthwise.cuh"
#include "kernels/conv2d/cuda/depthwise_weights.cuh"
#include "kernels/conv2d/cuda/image_product.cuh"
#include "kernels/conv2d/cuda/weight_product.cuh"
#include "kernels/conv2d/cuda/winograd.cuh"
#include "kernels/lrn/cuda/energy.cuh"
#include "kernels/matmul/cuda/double_buffered.cuh"
#include "kernels/pool2d/cuda/problem.cuh"

namespace profkit {
namespace {

struct Anything {
  template <class T>
  operator T() const;
};

template <class T, size_t... kIndex>
constexpr auto takes(std::index_sequence<kIndex...>) -> decltype(T{(void(kIndex), Anything{})...}, true) {
  return true;
}
template <class T>
constexpr bool takes(...) {
  return false;
}

// How many fields an aggregate has: it cannot be made from one value more.
template <class T, size_t kCount = 0>
constexpr size_t field_count() {
  if constexpr (takes<T>(std::make_index_sequence<kCount + 1>{})) {
    return field_count<T, kCount + 1>();
  } else {
    return kCount;
  }
}

class Table {
 public:
  // `names` is the list as it was written: "m, n, k".
  template <class Struct, class... Fields>
  void add(const char* name, const std::string& names, const Struct& value, const Fields&... fields) {
    static_assert(sizeof...(Fields) == field_count<Struct>(), "the table lacks a field of this struct");
    StructLayout layout{name, sizeof(Struct), {}, {}};
    size_t at = 0;
    (layout.fields.push_back({next_name(names, at), kind_of<Fields>(), distance(value, fields)}), ...);
    if (!std::is_trivially_default_constructible_v<Struct>) {
      layout.defaults.assign(reinterpret_cast<const char*>(&value), sizeof(Struct));
    }
    names_.emplace(typeid(Struct), name);
    layouts.push_back(std::move(layout));
  }

  std::vector<StructLayout> layouts;

 private:
  static std::string next_name(const std::string& names, size_t& at) {
    const size_t end = std::min(names.find(',', at), names.size());
    const std::string name = names.substr(at, end - at);
    at = end + 2;
    return name;
  }
  template <class Struct, class Field>
  static size_t distance(const Struct& value, const Field& field) {
    return static_cast<size_t>(reinterpret_cast<const char*>(&field) - reinterpret_cast<const char*>(&value));
  }
  template <class Field>
  std::string kind_of() const {
    if constexpr (std::is_pointer_v<Field>) {
      return "pointer";
    } else if constexpr (std::is_enum_v<Field>) {
      return kind_of<std::underlying_type_t<Field>>();
    } else if constexpr (std::is_class_v<Field>) {
      return names_.at(typeid(Field));  // structs are listed before those that hold them
    } else if constexpr (std::is_same_v<Field, bool>) {
      return "bool";
    } else {
      static_assert(std::is_arithmetic_v<Field> && (sizeof(Field) == 4 || sizeof(Field) == 8));
      const bool is_wide = sizeof(Field) == 8;
      if (std::is_floating_point_v<Field>) return is_wide ? "double" : "float";
      return std::is_signed_v<Field> ? (is_wide ? "int64_t" : "int") : (is_wide ? "uint64_t" : "unsigned");
    }
  }

  std::unordered_map<std::type_index, std::string> names_;
};

// In a derived struct the fields are visible by their names, so that a wrong one does not compile.
#define PROFKIT_STRUCT(name, ...)                                                                 \
  struct name##Fields : cuda::name {                                                              \
    void add_to(Table& to) const { to.add<cuda::name>(#name, #__VA_ARGS__, *this, __VA_ARGS__); } \
  };                                                                                              \
  name##Fields{}.add_to(table)

}  // namespace

std::vector<StructLayout> cuda_structs() {
  Table table;
  PROFKIT_STRUCT(FastDivide, multiplier, shift, divisor);
  PROFKIT_STRUCT(RowBlocks, rows, extent, blocks_per_row);
  PROFKIT_STRUCT(ImageSteps, image, channel, row, column);
  PROFKIT_STRUCT(GatherImage, height, width, image_step, channel_step, row_step, column_step);
  PROFKIT_STRUCT(ConvProblem, batch, in_channels, height, width, out_channels, kernel_h, kernel_w, stride_h,
                 stride_w, pad_top, pad_left, dilation_h, dilation_w, groups, in_per_group, out_per_group,
                 out_h, out_w, is_nhwc, has_bias, has_relu, x, y);
  PROFKIT_STRUCT(BiasReluProblem, packs, channels, bias_by_row);
  PROFKIT_STRUCT(ColumnsProblem, conv, blocks, by_rows, by_taps, by_kernel_w, by_out_w);
  PROFKIT_STRUCT(ImageRows, conv, blocks, by_channels, by_positions, by_width);
  PROFKIT_STRUCT(DepthwiseProblem, conv, is_gradient, terms, first_h, first_w, units, source, target,
                 by_multiplier, by_channels, by_width, by_strips, by_stride_h, by_stride_w);
  PROFKIT_STRUCT(DepthwiseSum, conv, positions, positions_per_split, source, gradient, by_multiplier,
                 by_plane, by_out_w, by_kernel_w);
  PROFKIT_STRUCT(ImageProduct, conv, is_gradient, channels, results, by_channels, phases_h, phases_w,
                 depth_rows, packed_columns, quads_of_targets, source, target_image_step, target_channel_step,
                 target_row_step, target_column_step);
  PROFKIT_STRUCT(WeightProduct, conv, rows, columns, depth, splits, terms_per_split, weights, by_taps,
                 by_kernel_w, by_channels, by_plane, by_out_w, source, gradient);
  PROFKIT_STRUCT(WinogradProblem, conv, is_gradient, channels, results, positions, padded_channels,
                 padded_results, padded_positions, source_first_h, source_first_w, target_height,
                 target_width, source, target, by_plane, by_tiles_w);
  PROFKIT_STRUCT(WinogradProducts, channels, results, positions, filters_step, sources_step, sums_step);
  PROFKIT_STRUCT(LrnProblem, blocks, channels, positions, before, after, channel_step, channel_by_row, scale,
                 k, minus_beta, power);
  PROFKIT_STRUCT(MatmulProblem, m, n, k, transpose_a, transpose_b, a_row, b_row, c_row, a_batch_step,
                 b_batch_step, c_batch_step, bias_of, has_relu, has_aligned_rows_of_c);
  PROFKIT_STRUCT(BlockWork, slices, slice_terms, a_of, b_of, c_of);
  PROFKIT_STRUCT(PoolProblem, blocks, is_nchw, channels, height, width, out_h, out_w, kernel_h, kernel_w,
                 stride_h, stride_w, pad_top, pad_left, by_width, by_positions);
  return table.layouts;
}

}  // namespace profkit
