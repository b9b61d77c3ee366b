#include "bindings/kernels/arguments.h"

#include <cstring>
#include <sstream>

#include "kernels/operators.h"
#include "runtime/check.h"

namespace py = pybind11;

namespace profkit {
namespace {

constexpr int64_t kMostThreads = 4096;

// "rows, classes" as the operator's params.h lists them, and whether they are doubles.
struct Listed {
  bool is_real;
  const char* names;
};
template <class Params>
struct Fields;
#define PROFKIT_INTEGER_NAMES(...) {false, #__VA_ARGS__},
#define PROFKIT_NUMBER_NAMES(...) {true, #__VA_ARGS__},
#define PROFKIT_FIELDS(op)                                                                                \
  template <>                                                                                             \
  struct Fields<profkit_##op##_params> {                                                                  \
    static constexpr Listed lists[] = {PROFKIT_FIELDS_##op(PROFKIT_INTEGER_NAMES, PROFKIT_NUMBER_NAMES)}; \
  };
PROFKIT_OPERATORS(PROFKIT_FIELDS)

std::string written(py::handle value) { return py::repr(value); }

int64_t read_integer(const std::string& name, py::handle value) {
  const py::object whole = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  const int64_t number = whole ? PyLong_AsLongLong(whole.ptr()) : -1;
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw KernelError("params: " + name + " must be a whole number of 64 bits, got " + written(value));
  }
  return number;
}

double read_real(const std::string& name, py::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw KernelError("params: " + name + " must be a number, got " + written(value));
  }
  return number;
}

[[noreturn]] void refuse_unknown(const py::dict& values, const std::vector<ParamsField>& fields) {
  for (const auto& item : values) {
    bool known = false;
    for (const ParamsField& field : fields)
      known = known || written(item.first) == written(py::str(field.name));
    if (!known) throw KernelError("params: unknown name " + written(item.first));
  }
  throw KernelError("params: more names than the operator has");
}

}  // namespace

template <class Params>
const std::vector<ParamsField>& params_fields() {
  static const std::vector<ParamsField> fields = [] {
    std::vector<ParamsField> found;
    for (const Listed& list : Fields<Params>::lists) {
      std::istringstream names(list.names);
      for (std::string name; names >> name;) {
        if (name.back() == ',') name.pop_back();
        found.push_back({name, list.is_real});
      }
    }
    return found;
  }();
  return fields;
}

template <class Params>
Params read_params(const py::dict& values) {
  const std::vector<ParamsField>& fields = params_fields<Params>();
  // Every field has 8 bytes: the struct is an array of int64_t and double.
  Params params{};
  PROFKIT_CHECK(sizeof(Params) == 8 * fields.size(), "params: the struct is not its list of fields");
  char* target = reinterpret_cast<char*>(&params);
  for (const ParamsField& field : fields) {
    PyObject* value = PyDict_GetItemString(values.ptr(), field.name.c_str());
    if (value == nullptr) throw KernelError("params: " + field.name + " is missing");
    if (field.is_real) {
      const double number = read_real(field.name, value);
      std::memcpy(target, &number, 8);
    } else {
      const int64_t number = read_integer(field.name, value);
      std::memcpy(target, &number, 8);
    }
    target += 8;
  }
  if (values.size() != fields.size()) refuse_unknown(values, fields);
  return params;
}

#define PROFKIT_INSTANTIATE(op)                                                    \
  template const std::vector<ParamsField>& params_fields<profkit_##op##_params>(); \
  template profkit_##op##_params read_params<profkit_##op##_params>(const py::dict&);
PROFKIT_OPERATORS(PROFKIT_INSTANTIATE)

int checked_threads(int64_t threads) {
  if (threads < 1 || threads > kMostThreads) {
    throw KernelError("threads must be between 1 and " + std::to_string(kMostThreads) + ", got " +
                      std::to_string(threads));
  }
  return static_cast<int>(threads);
}

}  // namespace profkit
