// conv2d/native/cpu/implicit_gemm: the matrix product of im2col without its matrix. NCHW packs panels of
// positions on the fly (cpu/gather/planar.inl), NHWC reads positions in place (cpu/gather/pixels.inl), the
// weight gradient reads filter elements in place (cpu/weight_gradient/by_taps.inl); the input gradient is one
// gather per residue of the stride. Memory: packed weights, and per thread a slab and one block of panels.
// Bottleneck: FMA.
#pragma once

#include "kernels/conv2d/cpu/gather/pixels.inl"
#include "kernels/conv2d/cpu/gather/planar.inl"
#include "kernels/conv2d/cpu/weight_gradient/by_taps.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct ConvImplicitGemm {
  using Params = profkit_conv2d_params;

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    const auto nothing = [](const auto&) {};
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
      return with_weight_gradient<T>(p, threads, blocking, nullptr, nothing);
    }
    return p.layout == PROFKIT_NHWC ? for_each_phase<PixelPlan<T>>(p, threads, blocking, nullptr, nothing)
                                    : for_each_phase<PlanarPlan<T>>(p, threads, blocking, nullptr, nothing);
  }

  static void launch(const Params& p, const CpuCall& call) {
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
      with_weight_gradient<T>(p, call.threads, call.blocking, call.workspace,
                              [&](const auto& plan) { run_weight_gradient<T>(plan, call); });
      return;
    }
    if (p.layout == PROFKIT_NHWC) {
      for_each_phase<PixelPlan<T>>(p, call.threads, call.blocking, call.workspace,
                                   [&](PixelPlan<T>& plan) { run_pixels<T>(plan, call); });
    } else {
      for_each_phase<PlanarPlan<T>>(p, call.threads, call.blocking, call.workspace,
                                    [&](PlanarPlan<T>& plan) { run_planar<T>(plan, call); });
    }
  }

  static CpuTunables tunables(const Params& p, int threads, const CpuBlocking& blocking) {
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
      CpuTunables found = {};
      with_weight_gradient<T>(p, threads, blocking, nullptr,
                              [&](const auto& plan) { found = plan.tunables(); });
      return found;
    }
    return p.layout == PROFKIT_NHWC ? phase_tunables<PixelPlan<T>>(p, threads, blocking)
                                    : phase_tunables<PlanarPlan<T>>(p, threads, blocking);
  }

  static size_t packed_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    return p.layout == PROFKIT_NHWC ? packed_weights_bytes<PixelPlan<T>>(p, threads, blocking)
                                    : packed_weights_bytes<PlanarPlan<T>>(p, threads, blocking);
  }
  static void pack(const Params& p, const void* weights, void* packed, int threads,
                   const CpuBlocking& blocking) {
    p.layout == PROFKIT_NHWC ? pack_weights_ahead<PixelPlan<T>>(p, weights, packed, threads, blocking)
                             : pack_weights_ahead<PlanarPlan<T>>(p, weights, packed, threads, blocking);
  }
};

extern const CpuEntry<profkit_conv2d_params> conv2d_implicit_gemm;
const CpuEntry<profkit_conv2d_params> conv2d_implicit_gemm =
    EntryOf<ConvImplicitGemm, profkit_conv2d_params>::with_packing();

}  // namespace PROFKIT_ISA
}  // namespace profkit
