// conv2d/native/cpu/im2col: per image and group, lay out the column matrix, then one GEMM (cpu/gemm.inl). A
// thread owns whole images and one column matrix, which it reuses; for the weight gradient it also owns a
// partial sum, and partial sums are added in thread order. Bottleneck: writing and reading the columns (taps
// times the image).
#pragma once

#include "kernels/conv2d/cpu/columns/products.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct Im2colPlan {
  ColumnProduct<T> product;
  int64_t workers;
  int64_t column_elements, sum_elements;
  T *ordered, *columns, *sums, *buffer_a, *buffer_b;

  Im2colPlan(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking, Arena& arena)
      : product(p, 1, 1, blocking), workers(smaller(threads, p.batch)) {
    const Gather& g = product.g;
    column_elements = round_up(product.column_elements(), 64);
    const int64_t weights = g.out_channels * g.reduction() * g.groups;
    const bool weight_gradient = p.direction == PROFKIT_WEIGHT_GRADIENT;
    sum_elements = weight_gradient ? round_up(weights, 64) : 0;
    ordered = arena.take<T>(g.nhwc && !weight_gradient ? weights : 0);
    columns = arena.take<T>(column_elements, workers);
    sums = arena.take<T>(sum_elements, workers);
    buffer_a = arena.take<T>(product.a_elements, workers);
    buffer_b = arena.take<T>(product.b_elements, workers);
  }
};

template <class T>
struct Im2colWorker {
  const profkit_conv2d_params& p;
  const Im2colPlan<T>& plan;
  const Gather& g;
  const CpuCall& call;
  ConvViews<T> views;
  Columns<T> columns;
  T *matrix, *sums;
  typename ColumnProduct<T>::Operands x;

  Im2colWorker(const profkit_conv2d_params& params, const Im2colPlan<T>& the_plan, const CpuCall& the_call,
               int thread)
      : p(params), plan(the_plan), g(the_plan.product.g), call(the_call), views(g), columns(g, 1) {
    matrix = plan.columns + thread * plan.column_elements;
    sums = plan.sums + thread * plan.sum_elements;
    x = {};
    x.columns = matrix;
    x.buffer_a = plan.buffer_a + thread * plan.product.a_elements;
    x.buffer_b = plan.buffer_b + thread * plan.product.b_elements;
  }

  const T* input(int index) const { return static_cast<const T*>(call.inputs[index]); }
  const T* weights(int64_t group) const { return (g.nhwc ? plan.ordered : input(1)) + group * views.w_group; }

  void forward(int64_t image, int64_t group) {
    image_to_columns(columns, input(0) + image * views.x_image + group * views.x_group, matrix);
    T* y = static_cast<T*>(call.output) + image * views.y_image + group * views.y_group;
    const T* bias = p.bias ? input(2) + group * g.out_channels : nullptr;
    x.weights = weights(group);
    x.out = {y, g.nhwc ? g.out_channels * g.groups : g.positions()};
    (g.nhwc ? x.out.column_bias : x.out.row_bias) = bias;
    x.out.relu = p.activation == PROFKIT_RELU;
    plan.product.run(x, {0, plan.product.m}, {0, plan.product.n});
  }

  void input_gradient(int64_t image, int64_t group) {
    T* dx = static_cast<T*>(call.output) + image * views.x_image;
    if (group == 0) memset(dx, 0, static_cast<size_t>(views.x_image) * sizeof(T));
    x.weights = weights(group);
    x.y = input(0) + image * views.y_image + group * views.y_group;
    x.out = {matrix, plan.product.pitch()};
    plan.product.run(x, {0, plan.product.m}, {0, plan.product.n});
    add_columns_to_image(columns, matrix, dx + group * views.x_group);
  }

  void weight_gradient(int64_t image, int64_t group, bool first) {
    image_to_columns(columns, input(0) + image * views.x_image + group * views.x_group, matrix);
    x.y = input(1) + image * views.y_image + group * views.y_group;
    x.out = {sums + group * views.w_group, plan.product.n};
    x.out.accumulate = !first;
    plan.product.run(x, {0, plan.product.m}, {0, plan.product.n});
  }

  void run(Part images) {
    for (int64_t image = images.begin; image < images.end; ++image) {
      for (int64_t group = 0; group < g.groups; ++group) {
        if (p.direction == PROFKIT_FORWARD) {
          forward(image, group);
        } else if (p.direction == PROFKIT_INPUT_GRADIENT) {
          input_gradient(image, group);
        } else {
          weight_gradient(image, group, image == images.begin);
        }
      }
    }
  }
};

// Adds the workers' sums into the first, in their order, and puts them in the weights' order.
template <class T>
void merge_weight_sums(const Im2colPlan<T>& plan, T* dw) {
  const Gather& g = plan.product.g;
  const int64_t group_elements = g.out_channels * g.reduction(), count = group_elements * g.groups;
  for (int64_t worker = 1; worker < plan.workers; ++worker) {
    const T* from = plan.sums + worker * plan.sum_elements;
    for (int64_t i = 0; i < count; ++i) plan.sums[i] += from[i];
  }
  if (!g.nhwc) {
    memcpy(dw, plan.sums, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t group = 0; group < g.groups; ++group) {
    restore_weights(g, plan.sums + group * group_elements, dw + group * group_elements);
  }
}

template <class T>
struct ConvIm2col {
  using Params = profkit_conv2d_params;

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    Arena arena(nullptr);
    const Im2colPlan<T> plan(p, threads, blocking, arena);
    return arena.used_bytes();
  }
  static void launch(const Params& p, const CpuCall& call) {
    Arena arena(call.workspace);
    const Im2colPlan<T> plan(p, call.threads, call.blocking, arena);
    const Gather& g = plan.product.g;
    if (g.nhwc && p.direction != PROFKIT_WEIGHT_GRADIENT) {
      const int64_t elements = g.out_channels * g.reduction();
      for (int64_t group = 0; group < g.groups; ++group) {
        order_weights(g, static_cast<const T*>(call.inputs[1]) + group * elements,
                      plan.ordered + group * elements);
      }
    }
    on_threads(static_cast<int>(plan.workers), [&](int thread) {
      Im2colWorker<T>(p, plan, call, thread).run(part_of(p.batch, 1, plan.workers, thread));
    });
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) merge_weight_sums(plan, static_cast<T*>(call.output));
  }
  static CpuTunables tunables(const Params& p, int threads, const CpuBlocking& blocking) {
    Arena arena(nullptr);
    return Im2colPlan<T>(p, threads, blocking, arena).product.tunables();
  }
};

extern const CpuEntry<profkit_conv2d_params> conv2d_im2col;
const CpuEntry<profkit_conv2d_params> conv2d_im2col =
    EntryOf<ConvIm2col, profkit_conv2d_params>::with_tunables();

}  // namespace PROFKIT_ISA
}  // namespace profkit
