// The product that other operators use.
#pragma once

#include "kernels/cuda/registry.h"
#include "kernels/matmul/params.h"

namespace profkit {

// Where the matrices of a product lie in device memory: rows may be longer than what the product uses of
// them, and a batch step of zero uses a matrix again.
struct MatmulOperands {
  const void *a, *b, *bias;  // the bias is read only when params.bias says so
  void* c;
  int64_t a_row, b_row, c_row;  // elements from one row in memory to the next, at most 2^25
  int64_t a_batch_step, b_batch_step, c_batch_step;
  bool bias_of_rows = false;  // one value per row of c, as a convolution over [channels][pixels] needs
};

// A float32 product of any size and transposition on device pointers, for operators that are made of
// products: empty from `supports` means that `matmul_on_device` takes it. It needs no workspace.
std::string matmul_on_device_supports(const profkit_matmul_params& params, const CudaDevice&);
void matmul_on_device(const profkit_matmul_params& params, const MatmulOperands& operands,
                      const CudaCall& call);

}  // namespace profkit
