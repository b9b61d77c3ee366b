// A borrowed view of an array of any framework: buffer protocol if offered, else DLPack; never a copy.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/shapes.h"

namespace profkit {

// Beside the element types of profkit_dtype: whole numbers of 64 bits.
constexpr int64_t kIndices = -1;

class Array {
 public:
  // `role` names the array in errors: "input x", "output". Throws KernelError when the object offers neither
  // protocol or is in device memory. Needs the GIL, as does the destructor.
  Array(pybind11::handle object, std::string role);

  // Each throws KernelError, saying what was expected and what came.
  void require(int64_t dtype, const Shape& shape) const;
  void require_writable() const;
  void require_apart_from(const Array& other) const;
  // For a workspace: any element type, enough bytes, starting at a multiple of 64.
  void require_room(size_t bytes) const;

  void* data() const { return data_; }

 private:
  struct Lender;        // what keeps the memory alive, and gives it back
  struct BufferLender;  // Py_buffer
  struct DlpackLender;  // capsule's tensor

  void read_buffer(pybind11::handle object);
  void read_dlpack(pybind11::handle object);
  void require_contiguous() const;
  void require_host_device(int type) const;
  [[noreturn]] void refuse(const std::string& reason) const;

  std::string role_;
  std::shared_ptr<Lender> lender_;
  void* data_ = nullptr;
  std::string dtype_name_;  // as NumPy spells it
  int64_t item_bytes_ = 0;
  Shape shape_;
  std::vector<int64_t> strides_bytes_;
  std::string read_only_because_;  // empty when writable
};

}  // namespace profkit
