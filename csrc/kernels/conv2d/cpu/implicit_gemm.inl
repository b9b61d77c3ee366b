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
size_t implicit_gemm_workspace(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking) {
  if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
    return with_weight_gradient<T>(p, threads, blocking, nullptr, [](const auto&) {});
  }
  const auto nothing = [](const auto&) {};
  return p.layout == PROFKIT_NHWC ? for_each_phase<PixelPlan<T>>(p, threads, blocking, nullptr, nothing)
                                  : for_each_phase<PlanarPlan<T>>(p, threads, blocking, nullptr, nothing);
}

template <class T>
void implicit_gemm_run(const profkit_conv2d_params& p, const CpuCall& call) {
  if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
    with_weight_gradient<T>(p, call.threads, call.blocking, call.workspace,
                            [&](const auto& plan) { run_weight_gradient<T>(plan, call); });
    return;
  }
  const void* bias = p.bias && p.direction == PROFKIT_FORWARD ? call.inputs[2] : nullptr;
  if (p.layout == PROFKIT_NHWC) {
    for_each_phase<PixelPlan<T>>(p, call.threads, call.blocking, call.workspace,
                                 [&](PixelPlan<T>& plan) { run_pixels<T>(plan, call, bias); });
  } else {
    for_each_phase<PlanarPlan<T>>(p, call.threads, call.blocking, call.workspace,
                                  [&](PlanarPlan<T>& plan) { run_planar<T>(plan, call, bias); });
  }
}

template <class T>
CpuTunables implicit_gemm_tunables_of(const profkit_conv2d_params& p, int threads,
                                      const CpuBlocking& blocking) {
  if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
    CpuTunables found = {};
    with_weight_gradient<T>(p, threads, blocking, nullptr,
                            [&](const auto& plan) { found = plan.tunables(); });
    return found;
  }
  return p.layout == PROFKIT_NHWC ? phase_tunables<PixelPlan<T>>(p, threads, blocking)
                                  : phase_tunables<PlanarPlan<T>>(p, threads, blocking);
}

inline size_t implicit_gemm_workspace_bytes(const profkit_conv2d_params& p, int threads,
                                            const CpuBlocking& blocking) {
  return p.dtype == PROFKIT_FLOAT32 ? implicit_gemm_workspace<float>(p, threads, blocking)
                                    : implicit_gemm_workspace<double>(p, threads, blocking);
}

inline void implicit_gemm_launch(const profkit_conv2d_params& p, const CpuCall& call) {
  p.dtype == PROFKIT_FLOAT32 ? implicit_gemm_run<float>(p, call) : implicit_gemm_run<double>(p, call);
}

inline CpuTunables implicit_gemm_tunables(const profkit_conv2d_params& p, int threads,
                                          const CpuBlocking& blocking) {
  return p.dtype == PROFKIT_FLOAT32 ? implicit_gemm_tunables_of<float>(p, threads, blocking)
                                    : implicit_gemm_tunables_of<double>(p, threads, blocking);
}

template <class T>
size_t implicit_gemm_packed_of(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking) {
  return p.layout == PROFKIT_NHWC ? packed_weights_bytes<PixelPlan<T>>(p, threads, blocking)
                                  : packed_weights_bytes<PlanarPlan<T>>(p, threads, blocking);
}

template <class T>
void implicit_gemm_pack_of(const profkit_conv2d_params& p, const void* weights, void* packed, int threads,
                           const CpuBlocking& blocking) {
  p.layout == PROFKIT_NHWC ? pack_weights_ahead<PixelPlan<T>>(p, weights, packed, threads, blocking)
                           : pack_weights_ahead<PlanarPlan<T>>(p, weights, packed, threads, blocking);
}

inline size_t implicit_gemm_packed_bytes(const profkit_conv2d_params& p, int threads,
                                         const CpuBlocking& blocking) {
  return p.dtype == PROFKIT_FLOAT32 ? implicit_gemm_packed_of<float>(p, threads, blocking)
                                    : implicit_gemm_packed_of<double>(p, threads, blocking);
}

inline void implicit_gemm_pack(const profkit_conv2d_params& p, const void* weights, void* packed, int threads,
                               const CpuBlocking& blocking) {
  p.dtype == PROFKIT_FLOAT32 ? implicit_gemm_pack_of<float>(p, weights, packed, threads, blocking)
                             : implicit_gemm_pack_of<double>(p, weights, packed, threads, blocking);
}

extern const CpuEntry<profkit_conv2d_params> conv2d_implicit_gemm;
const CpuEntry<profkit_conv2d_params> conv2d_implicit_gemm = {implicit_gemm_workspace_bytes,
                                                              implicit_gemm_launch, implicit_gemm_tunables,
                                                              implicit_gemm_packed_bytes, implicit_gemm_pack};

}  // namespace PROFKIT_ISA
}  // namespace profkit
