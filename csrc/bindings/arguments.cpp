// The field tables of params.h, one per operator, and the reading of a dict with them.
#include "bindings/arguments.h"

#include <string>
#include <variant>
#include <vector>

#include "runtime/check.h"

namespace py = pybind11;

namespace profkit {
namespace {

constexpr int64_t kMostThreads = 4096;

template <class P>
struct Field {
  const char* name;
  std::variant<int64_t P::*, double P::*> member;
};

template <class P>
struct Fields;

template <>
struct Fields<profkit_conv2d_params> {
  using P = profkit_conv2d_params;
  static inline const std::vector<Field<P>> all = {
      {"batch", &P::batch},
      {"in_channels", &P::in_channels},
      {"height", &P::height},
      {"width", &P::width},
      {"out_channels", &P::out_channels},
      {"kernel_h", &P::kernel_h},
      {"kernel_w", &P::kernel_w},
      {"stride_h", &P::stride_h},
      {"stride_w", &P::stride_w},
      {"pad_top", &P::pad_top},
      {"pad_bottom", &P::pad_bottom},
      {"pad_left", &P::pad_left},
      {"pad_right", &P::pad_right},
      {"dilation_h", &P::dilation_h},
      {"dilation_w", &P::dilation_w},
      {"groups", &P::groups},
      {"out_h", &P::out_h},
      {"out_w", &P::out_w},
      {"bias", &P::bias},
      {"activation", &P::activation},
      {"layout", &P::layout},
      {"dtype", &P::dtype},
      {"direction", &P::direction},
  };
};

template <>
struct Fields<profkit_matmul_params> {
  using P = profkit_matmul_params;
  static inline const std::vector<Field<P>> all = {
      {"batch", &P::batch},
      {"m", &P::m},
      {"n", &P::n},
      {"k", &P::k},
      {"transpose_a", &P::transpose_a},
      {"transpose_b", &P::transpose_b},
      {"bias", &P::bias},
      {"dtype", &P::dtype},
      {"activation", &P::activation},
  };
};

template <>
struct Fields<profkit_pool2d_params> {
  using P = profkit_pool2d_params;
  static inline const std::vector<Field<P>> all = {
      {"batch", &P::batch},           {"channels", &P::channels}, {"height", &P::height},
      {"width", &P::width},           {"kernel_h", &P::kernel_h}, {"kernel_w", &P::kernel_w},
      {"stride_h", &P::stride_h},     {"stride_w", &P::stride_w}, {"pad_top", &P::pad_top},
      {"pad_bottom", &P::pad_bottom}, {"pad_left", &P::pad_left}, {"pad_right", &P::pad_right},
      {"out_h", &P::out_h},           {"out_w", &P::out_w},       {"mode", &P::mode},
      {"layout", &P::layout},         {"dtype", &P::dtype},       {"direction", &P::direction},
  };
};

template <>
struct Fields<profkit_lrn_params> {
  using P = profkit_lrn_params;
  static inline const std::vector<Field<P>> all = {
      {"batch", &P::batch}, {"channels", &P::channels}, {"height", &P::height},
      {"width", &P::width}, {"size", &P::size},         {"layout", &P::layout},
      {"dtype", &P::dtype}, {"alpha", &P::alpha},       {"beta", &P::beta},
      {"k", &P::k},
  };
};

template <>
struct Fields<profkit_bias_relu_params> {
  using P = profkit_bias_relu_params;
  static inline const std::vector<Field<P>> all = {
      {"batch", &P::batch}, {"channels", &P::channels}, {"height", &P::height},
      {"width", &P::width}, {"layout", &P::layout},     {"dtype", &P::dtype},
  };
};

template <>
struct Fields<profkit_softmax_params> {
  using P = profkit_softmax_params;
  static inline const std::vector<Field<P>> all = {
      {"rows", &P::rows},
      {"columns", &P::columns},
      {"dtype", &P::dtype},
  };
};

std::string written(py::handle value) { return py::repr(value); }

void read_number(const char* name, py::handle value, int64_t* target) {
  const py::object whole = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  const int64_t number = whole ? PyLong_AsLongLong(whole.ptr()) : -1;
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw KernelError("params: " + std::string(name) + " must be a whole number of 64 bits, got " +
                      written(value));
  }
  *target = number;
}

void read_number(const char* name, py::handle value, double* target) {
  *target = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw KernelError("params: " + std::string(name) + " must be a number, got " + written(value));
  }
}

template <class P>
[[noreturn]] void refuse_unknown(const py::dict& values) {
  for (const auto& item : values) {
    bool known = false;
    for (const Field<P>& field : Fields<P>::all)
      known = known || written(item.first) == written(py::str(field.name));
    if (!known) throw KernelError("params: unknown name " + written(item.first));
  }
  throw KernelError("params: more names than the operator has");
}

}  // namespace

template <class Params>
Params read_params(const py::dict& values) {
  Params params{};
  for (const Field<Params>& field : Fields<Params>::all) {
    PyObject* value = PyDict_GetItemString(values.ptr(), field.name);
    if (value == nullptr) throw KernelError("params: " + std::string(field.name) + " is missing");
    std::visit([&](auto member) { read_number(field.name, value, &(params.*member)); }, field.member);
  }
  if (values.size() != Fields<Params>::all.size()) refuse_unknown<Params>(values);
  return params;
}

template profkit_conv2d_params read_params<profkit_conv2d_params>(const py::dict&);
template profkit_matmul_params read_params<profkit_matmul_params>(const py::dict&);
template profkit_pool2d_params read_params<profkit_pool2d_params>(const py::dict&);
template profkit_lrn_params read_params<profkit_lrn_params>(const py::dict&);
template profkit_bias_relu_params read_params<profkit_bias_relu_params>(const py::dict&);
template profkit_softmax_params read_params<profkit_softmax_params>(const py::dict&);

int checked_threads(int64_t threads) {
  if (threads < 1 || threads > kMostThreads) {
    throw KernelError("threads must be between 1 and " + std::to_string(kMostThreads) + ", got " +
                      std::to_string(threads));
  }
  return static_cast<int>(threads);
}

}  // namespace profkit
