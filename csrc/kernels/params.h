// What the parameters of all operators share; those of one are in <operator>/params.h. Installed as one file,
// <profkit/params.h>, for users' own C, C++ and CUDA kernels: plain C, no other header of profkit.
//
// An operator's fields are listed once, as PROFKIT_FIELDS_<operator>, in the order of its spec in
// profkit/ops: the struct is made of the list, and so is its reading from Python
// (bindings/kernels/arguments.cpp). All counts are in elements; weights are
// [out_channels][in_channels/groups][kernel_h][kernel_w] whatever the layout of the images.
#pragma once

#include <stdint.h>

// typedef struct profkit_matmul_params { int64_t m, n, k, ...; } profkit_matmul_params;
#define PROFKIT_PARAMS(op)                                 \
  typedef struct profkit_##op##_params {                   \
    PROFKIT_FIELDS_##op(PROFKIT_INTEGERS, PROFKIT_NUMBERS) \
  } profkit_##op##_params;
#define PROFKIT_INTEGERS(...) int64_t __VA_ARGS__;
#define PROFKIT_NUMBERS(...) double __VA_ARGS__;

// 16-bit types are for storage; kernels sum their products in float32 and round once, at the end.
enum profkit_dtype { PROFKIT_FLOAT32 = 0, PROFKIT_FLOAT64 = 1, PROFKIT_FLOAT16 = 2, PROFKIT_BFLOAT16 = 3 };
enum profkit_layout { PROFKIT_NCHW = 0, PROFKIT_NHWC = 1 };
// The gradients of a normalisation's parameters and of a bias are those of weights.
enum profkit_direction {
  PROFKIT_FORWARD = 0,
  PROFKIT_INPUT_GRADIENT = 1,
  PROFKIT_WEIGHT_GRADIENT = 2,
  PROFKIT_PARAMETER_GRADIENT = 2,
  PROFKIT_BIAS_GRADIENT = 2
};
// Of the fields activation, recurrent_activation and function.
enum profkit_activation {
  PROFKIT_NONE = 0,
  PROFKIT_RELU = 1,
  PROFKIT_TANH = 2,
  PROFKIT_SCALED_TANH = 3,
  PROFKIT_SIGMOID = 4,
  PROFKIT_HARD_SIGMOID = 5,
  PROFKIT_GELU = 6
};
enum profkit_mode { PROFKIT_MAX = 0, PROFKIT_AVERAGE = 1 };
enum profkit_statistics { PROFKIT_TRAINING = 0, PROFKIT_INFERENCE = 1 };
enum profkit_optimiser { PROFKIT_SGD = 0, PROFKIT_ADAM = 1, PROFKIT_RMSPROP = 2 };
