// C++ errors of the CUDA module -> profkit.errors types and MemoryError.
#pragma once

namespace profkit {

void register_cuda_errors();

}  // namespace profkit
