// Reads buffers and DLPack capsules into Array, and checks what kernels rely on.
#include "bindings/kernels/array.h"

#include <utility>

#include "bindings/kernels/dlpack.h"
#include "runtime/aligned_memory.h"
#include "runtime/check.h"

namespace py = pybind11;

namespace profkit {
namespace {

std::string text(const Shape& shape) {
  std::string result = "(";
  for (size_t i = 0; i < shape.size(); ++i) result += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return result + (shape.size() == 1 ? ",)" : ")");
}

std::string type_name(py::handle object) { return py::str(py::type::handle_of(object).attr("__name__")); }

// The Python error that is set, as text; clears it.
std::string take_python_error() {
  py::error_already_set error;
  return py::str(error.value());
}

// struct-module codes of the supported element types, and of those that are passed by mistake.
std::string buffer_dtype_name(const char* format, int64_t item_bytes) {
  std::string code = format != nullptr ? format : "B";
  const bool native = code[0] != '>' && code[0] != '!';
  if (code.find_first_of("@=<>!") == 0) code.erase(0, 1);
  const std::string bits = std::to_string(item_bytes * 8);
  std::string name = "format " + code;
  if (code == "e" || code == "f" || code == "d" || code == "g") name = "float" + bits;
  if (code.size() == 1 && std::string("bhilqn").find(code) != std::string::npos) name = "int" + bits;
  if (code.size() == 1 && std::string("BHILQN").find(code) != std::string::npos) name = "uint" + bits;
  if (code == "?") name = "bool";
  if (code == "Zf" || code == "Zd") name = "complex" + bits;
  return native ? name : "byte-swapped " + name;
}

std::string dlpack_dtype_name(const dlpack::ElementType& type) {
  const std::string bits = std::to_string(type.bits);
  if (type.lanes != 1) return "vector type of " + std::to_string(type.lanes) + " lanes";
  switch (type.code) {
    case dlpack::kFloat:
      return "float" + bits;
    case dlpack::kInt:
      return "int" + bits;
    case dlpack::kUInt:
      return "uint" + bits;
    case dlpack::kBfloat:
      return "bfloat" + bits;
    case dlpack::kComplex:
      return "complex" + bits;
    case dlpack::kBool:
      return "bool";
    default:
      return "DLPack type code " + std::to_string(type.code);
  }
}

const char* dtype_name(int64_t dtype) {
  switch (dtype) {
    case PROFKIT_FLOAT64:
      return "float64";
    case PROFKIT_FLOAT16:
      return "float16";
    case PROFKIT_BFLOAT16:
      return "bfloat16";
    case kIndices:
      return "int64";
    default:
      return "float32";
  }
}

}  // namespace

struct Array::Lender {
  virtual ~Lender() = default;
};

struct Array::BufferLender : Lender {
  Py_buffer view{};
  ~BufferLender() override { PyBuffer_Release(&view); }
};

// Takes the tensor out of the capsule, as the protocol requires: the capsule is renamed, and we call the
// deleter.
struct Array::DlpackLender : Lender {
  dlpack::Managed* plain = nullptr;
  dlpack::ManagedVersioned* versioned = nullptr;

  explicit DlpackLender(py::handle capsule) {
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::kVersionedName) != 0) {
      versioned =
          static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kVersionedName));
      PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    } else if (PyCapsule_IsValid(capsule.ptr(), dlpack::kPlainName) != 0) {
      plain = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kPlainName));
      PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    }
  }
  ~DlpackLender() override {
    // A release may run Python code; an error that is already set must survive it.
    py::error_scope keep_current_error;
    if (versioned != nullptr && versioned->release != nullptr) versioned->release(versioned);
    if (plain != nullptr && plain->release != nullptr) plain->release(plain);
  }
};

Array::Array(py::handle object, std::string role) : role_(std::move(role)) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    read_buffer(object);
  } else if (py::hasattr(object, "__dlpack__")) {
    read_dlpack(object);
  } else if (py::hasattr(object, "__cuda_array_interface__")) {
    refuse("lies in CUDA device memory; CPU kernels take host arrays");
  } else {
    refuse("is a " + type_name(object) + ", which offers neither the buffer protocol nor DLPack");
  }
}

void Array::refuse(const std::string& reason) const { throw KernelError(role_ + ": " + reason); }

void Array::read_buffer(py::handle object) {
  auto lender = std::make_shared<BufferLender>();
  if (PyObject_GetBuffer(object.ptr(), &lender->view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    refuse("its buffer cannot be read: " + take_python_error());
  }
  const Py_buffer& view = lender->view;
  data_ = view.buf;
  item_bytes_ = view.itemsize;
  dtype_name_ = buffer_dtype_name(view.format, view.itemsize);
  shape_.assign(view.shape, view.shape + view.ndim);
  strides_bytes_.assign(view.strides, view.strides + view.ndim);
  if (view.readonly != 0) read_only_because_ = "this " + type_name(object) + " is read-only";
  lender_ = std::move(lender);
}

void Array::require_host_device(int type) const {
  if (type == dlpack::kCpu || type == dlpack::kCudaHost || type == dlpack::kRocmHost) return;
  const std::string name = type == dlpack::kCuda || type == dlpack::kCudaManaged ? "CUDA"
                           : type == dlpack::kRocm ? "ROCm"
                                                   : "DLPack type " + std::to_string(type);
  refuse("lies in " + name + " device memory; CPU kernels take host arrays");
}

void Array::read_dlpack(py::handle object) {
  py::object capsule;
  try {
    if (py::hasattr(object, "__dlpack_device__")) {  // checked first: a producer may copy to make a capsule
      const py::tuple device = object.attr("__dlpack_device__")();
      require_host_device(py::int_(py::reinterpret_borrow<py::object>(device[0])));
    }
    const py::object method = object.attr("__dlpack__");
    try {
      capsule = method(py::arg("max_version") = py::make_tuple(dlpack::kMajorVersion, 0));
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_TypeError))
        throw;  // a producer older than DLPack 1.0 does not know the argument
      capsule = method();
    }
  } catch (py::error_already_set& error) {
    refuse("DLPack of this " + type_name(object) + " failed: " + std::string(py::str(error.value())));
  }
  auto lender = std::make_shared<DlpackLender>(capsule);
  if (lender->plain == nullptr && lender->versioned == nullptr) refuse("__dlpack__ gave no DLPack capsule");
  if (lender->versioned != nullptr && lender->versioned->major != dlpack::kMajorVersion) {
    refuse("DLPack version " + std::to_string(lender->versioned->major) + " is not supported, only 1");
  }
  const uint64_t flags = lender->versioned != nullptr ? lender->versioned->flags : 0;
  const dlpack::Tensor& tensor =
      lender->versioned != nullptr ? lender->versioned->tensor : lender->plain->tensor;
  require_host_device(tensor.device.type);  // the capsule decides, whatever the object said
  if ((flags & dlpack::kReadOnly) != 0) read_only_because_ = "this " + type_name(object) + " is read-only";
  // Writes into a copy would be lost silently.
  if ((flags & dlpack::kIsCopied) != 0)
    read_only_because_ = "this " + type_name(object) + " exports only a copy";
  data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
  item_bytes_ = (tensor.type.bits * tensor.type.lanes + 7) / 8;
  dtype_name_ = dlpack_dtype_name(tensor.type);
  shape_.assign(tensor.shape, tensor.shape + tensor.dimensions);
  strides_bytes_.resize(shape_.size());
  int64_t step = 1;
  for (size_t i = shape_.size(); i-- > 0; step *= shape_[i]) {
    strides_bytes_[i] = (tensor.strides != nullptr ? tensor.strides[i] : step) * item_bytes_;
  }
  lender_ = std::move(lender);
}

void Array::require_contiguous() const {
  int64_t step = item_bytes_;
  for (size_t i = shape_.size(); i-- > 0; step *= shape_[i]) {
    if (shape_[i] == 1 || strides_bytes_[i] == step) continue;  // a dimension of one is never stepped over
    refuse("is not contiguous: shape " + text(shape_) + " with strides of " + text(strides_bytes_) +
           " bytes");
  }
}

void Array::require(int64_t dtype, const Shape& shape) const {
  // No buffer can say bfloat16: NumPy lends such arrays as the 16-bit numbers of their bytes.
  const bool is_bfloat16_bits = dtype == PROFKIT_BFLOAT16 && dtype_name_ == "uint16";
  if (dtype_name_ != dtype_name(dtype) && !is_bfloat16_bits) {
    refuse("expected " + std::string(dtype_name(dtype)) + ", got " + dtype_name_);
  }
  if (shape_ != shape) refuse("expected shape " + text(shape) + ", got " + text(shape_));
  require_contiguous();
  if (reinterpret_cast<uintptr_t>(data_) % static_cast<uintptr_t>(item_bytes_) != 0) {
    refuse("its data does not start at a multiple of its element size, " + std::to_string(item_bytes_) +
           " bytes");
  }
}

void Array::require_writable() const {
  if (!read_only_because_.empty()) refuse("cannot be written: " + read_only_because_);
}

void Array::require_apart_from(const Array& other) const {
  const auto bytes = [](const Array& array) {
    int64_t count = array.item_bytes_;
    for (int64_t extent : array.shape_) count *= extent;
    return count;
  };
  const char* mine = static_cast<const char*>(data_);
  const char* theirs = static_cast<const char*>(other.data_);
  if (mine < theirs + bytes(other) && theirs < mine + bytes(*this)) refuse("overlaps " + other.role_);
}

void Array::require_room(size_t bytes) const {
  require_writable();
  require_contiguous();
  size_t size = static_cast<size_t>(item_bytes_);
  for (int64_t extent : shape_) size *= static_cast<size_t>(extent);
  if (size < bytes) refuse("needs " + std::to_string(bytes) + " bytes, got " + std::to_string(size));
  if (bytes > 0 && reinterpret_cast<uintptr_t>(data_) % AlignedMemory::kAlignment != 0) {
    refuse("must start at a multiple of " + std::to_string(AlignedMemory::kAlignment) + " bytes");
  }
}

}  // namespace profkit
