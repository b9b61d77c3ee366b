// The launchers of the CUDA bias_relu kernels, for cuda_rows.cpp.
#pragma once

#include "kernels/cuda_registry.h"

namespace profkit {}  // namespace profkit
