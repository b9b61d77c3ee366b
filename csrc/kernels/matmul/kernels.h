// The matmul kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

size_t matmul_blocked_workspace_bytes(const profkit_matmul_params& params, int threads);
void matmul_blocked(const profkit_matmul_params& params, const Buffers& buffers, int threads);
CpuTuning<profkit_matmul_params> matmul_blocked_tuning();

void matmul_reference(const profkit_matmul_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
