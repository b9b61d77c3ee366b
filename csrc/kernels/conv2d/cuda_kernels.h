// The launchers of the CUDA conv2d kernels, for cuda_rows.cpp.
#pragma once

#include "kernels/cuda_registry.h"

namespace profkit {}  // namespace profkit
