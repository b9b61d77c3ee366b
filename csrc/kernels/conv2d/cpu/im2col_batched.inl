// conv2d/native/cpu/im2col_batched: the column matrix of the whole batch, then one GEMM per group
// (cpu/gemm.inl). Large products at the price of memory: filter elements x batch x positions. Threads share
// images while columns are laid out, and a grid of rectangles inside the GEMM. Bottleneck: the columns no
// longer fit any cache.
#pragma once

#include "kernels/conv2d/cpu/columns/products.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct BatchedPlan {
  ColumnProduct<T> product;
  T *ordered, *columns, *buffer_a, *buffer_b;
  int64_t* results;  // NCHW forward: offset in y of position n of the batch

  BatchedPlan(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking, Arena& arena)
      : product(p, p.batch, threads, blocking) {
    const Gather& g = product.g;
    ordered = arena.take<T>(g.nhwc ? g.out_channels * g.reduction() : 0);
    columns = arena.take<T>(product.column_elements());
    buffer_a = arena.take<T>(product.a_elements, threads);
    buffer_b = arena.take<T>(product.b_elements, threads);
    results = arena.take<int64_t>(!g.nhwc && p.direction == PROFKIT_FORWARD ? product.n : 0);
  }
};

template <class T>
struct BatchedRun {
  const profkit_conv2d_params& p;
  const CpuCall& call;
  const BatchedPlan<T>& plan;
  const Gather& g;
  ConvViews<T> views;
  Columns<T> columns;

  BatchedRun(const profkit_conv2d_params& params, const CpuCall& the_call, const BatchedPlan<T>& the_plan)
      : p(params),
        call(the_call),
        plan(the_plan),
        g(the_plan.product.g),
        views(g),
        columns(g, params.batch) {}

  const T* input(int index) const { return static_cast<const T*>(call.inputs[index]); }

  void lay_out(int64_t group) const {
    on_threads(call.threads, [&](int thread) {
      const Part images = part_of(p.batch, 1, call.threads, thread);
      for (int64_t image = images.begin; image < images.end; ++image) {
        image_to_columns(columns, input(0) + image * views.x_image + group * views.x_group,
                         plan.columns + columns.image_offset(image));
      }
    });
  }

  void add_up(int64_t group) const {
    on_threads(call.threads, [&](int thread) {
      const Part images = part_of(p.batch, 1, call.threads, thread);
      for (int64_t image = images.begin; image < images.end; ++image) {
        T* dx = static_cast<T*>(call.output) + image * views.x_image;
        if (group == 0) memset(dx, 0, static_cast<size_t>(views.x_image) * sizeof(T));
        add_columns_to_image(columns, plan.columns + columns.image_offset(image), dx + group * views.x_group);
      }
    });
  }

  void multiply(const T* weights, const T* y, const Out<T>& out) const {
    on_threads(call.threads, [&](int thread) {
      const typename ColumnProduct<T>::Operands x{weights,
                                                  y,
                                                  plan.columns,
                                                  out,
                                                  plan.buffer_a + thread * plan.product.a_elements,
                                                  plan.buffer_b + thread * plan.product.b_elements};
      plan.product.run(x, plan.product.rows(thread), plan.product.columns(thread));
    });
  }

  const T* weights(int64_t group) const {
    const T* from = input(1) + group * views.w_group;
    if (!g.nhwc) return from;
    order_weights(g, from, plan.ordered);
    return plan.ordered;
  }

  void forward(int64_t group) const {
    T* y = static_cast<T*>(call.output) + group * views.y_group;
    const T* bias = p.bias ? input(2) + group * g.out_channels : nullptr;
    Out<T> out{y, g.nhwc ? g.out_channels * g.groups : g.positions()};
    if (!g.nhwc) out.column_offset = plan.results;
    (g.nhwc ? out.column_bias : out.row_bias) = bias;
    out.relu = p.activation == PROFKIT_RELU;
    lay_out(group);
    multiply(weights(group), nullptr, out);
  }

  void input_gradient(int64_t group) const {
    multiply(weights(group), input(0) + group * views.y_group, {plan.columns, plan.product.pitch()});
    add_up(group);
  }

  void weight_gradient(int64_t group) const {
    T* dw = static_cast<T*>(call.output) + group * views.w_group;
    lay_out(group);
    multiply(nullptr, input(1) + group * views.y_group, {g.nhwc ? plan.ordered : dw, plan.product.n});
    if (g.nhwc) restore_weights(g, plan.ordered, dw);
  }

  void run() const {
    if (!g.nhwc && p.direction == PROFKIT_FORWARD) {
      for (int64_t n = 0; n < plan.product.n; ++n) {
        plan.results[n] = n / g.positions() * views.y_image + n % g.positions();
      }
    }
    for (int64_t group = 0; group < g.groups; ++group) {
      if (p.direction == PROFKIT_FORWARD) {
        forward(group);
      } else if (p.direction == PROFKIT_INPUT_GRADIENT) {
        input_gradient(group);
      } else {
        weight_gradient(group);
      }
    }
  }
};

template <class T>
struct ConvIm2colBatched {
  using Params = profkit_conv2d_params;

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    Arena arena(nullptr);
    const BatchedPlan<T> plan(p, threads, blocking, arena);
    return arena.used_bytes();
  }
  static void launch(const Params& p, const CpuCall& call) {
    Arena arena(call.workspace);
    const BatchedPlan<T> plan(p, call.threads, call.blocking, arena);
    BatchedRun<T>(p, call, plan).run();
  }
  static CpuTunables tunables(const Params& p, int threads, const CpuBlocking& blocking) {
    Arena arena(nullptr);
    return BatchedPlan<T>(p, threads, blocking, arena).product.tunables();
  }
};

extern const CpuEntry<profkit_conv2d_params> conv2d_im2col_batched;
const CpuEntry<profkit_conv2d_params> conv2d_im2col_batched =
    EntryOf<ConvIm2colBatched, profkit_conv2d_params>::with_tunables();

}  // namespace PROFKIT_ISA
}  // namespace profkit
