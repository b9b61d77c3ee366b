// Layouts of the structs that CUDA kernels take by value, for callers that have no C++ compiler: CuPy's.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace profkit {

struct StructField {
  std::string name;
  std::string kind;  // bool, int, unsigned, int64_t, uint64_t, float, double, pointer, or a struct's name
  size_t offset;
};

struct StructLayout {
  std::string name;
  size_t size;
  std::vector<StructField> fields;
  std::string defaults;  // the bytes of a struct whose fields have initialisers; empty: all must be given
};

std::vector<StructLayout> cuda_structs();

}  // namespace profkit
