// Checks the arguments of scopes and marks, and turns names into ids with a cache by object identity.
#include "bindings/tracer/scope_arguments.h"

#include <cstring>
#include <string>

namespace profkit {
namespace {

constexpr const char* kNames[] = {"name", "payload", "category"};
constexpr Py_ssize_t kNameCount = 3;

Py_ssize_t index_of(PyObject* keyword) {
  for (Py_ssize_t i = 0; i < kNameCount; ++i) {
    if (PyUnicode_CompareWithASCIIString(keyword, kNames[i]) == 0) return i;
  }
  return -1;
}

bool read_integer(PyObject* number, Payload* result) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow == 0) {
    if (value == -1 && PyErr_Occurred()) return false;
    *result = {PROFKIT_PAYLOAD_INT64, static_cast<uint64_t>(value)};
    return true;
  }
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(number);
    if (!PyErr_Occurred()) {
      *result = {PROFKIT_PAYLOAD_UINT64, static_cast<uint64_t>(large)};
      return true;
    }
  }
  PyErr_SetString(PyExc_OverflowError, "payload: the number does not fit into 64 bits");
  return false;
}

bool read_float(PyObject* number, Payload* result) {
  const double value = PyFloat_AsDouble(number);
  if (value == -1.0 && PyErr_Occurred()) return false;
  result->type = PROFKIT_PAYLOAD_FLOAT64;
  std::memcpy(&result->bits, &value, sizeof value);
  return true;
}

std::string utf8_of(PyObject* text) {
  Py_ssize_t bytes = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &bytes);
  if (data != nullptr) return std::string(data, static_cast<size_t>(bytes));
  // Half a surrogate pair has no UTF-8 form.
  PyErr_Clear();
  PyObject* encoded = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
  if (encoded == nullptr) {
    PyErr_Clear();
    return "?";
  }
  std::string result(PyBytes_AS_STRING(encoded), static_cast<size_t>(PyBytes_GET_SIZE(encoded)));
  Py_DECREF(encoded);
  return result;
}

struct CachedName {
  PyObject* name;  // strong: an address is reused only after its string is gone
  PyObject* category;
  RangeName ids;
};
// A fixed number of entries: names created for each range evict each other instead of accumulating.
constexpr size_t kCachedNames = 1024;
CachedName cached_names[kCachedNames];

CachedName& entry_for(PyObject* name, PyObject* category) {
  const uintptr_t key =
      reinterpret_cast<uintptr_t>(name) / 16 + reinterpret_cast<uintptr_t>(category) / 16 * 31;
  return cached_names[(key ^ (key >> 10)) % kCachedNames];
}

}  // namespace

bool read_arguments(const char* who, PyObject* const* values, Py_ssize_t count, PyObject* keywords,
                    ScopeArguments* result) {
  PyObject* found[kNameCount] = {};
  if (count > kNameCount) {
    PyErr_Format(PyExc_TypeError, "%s() takes name, payload and category, got %zd arguments", who, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) found[i] = values[i];
  const Py_ssize_t keyword_count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t i = 0; i < keyword_count; ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
    const Py_ssize_t index = index_of(keyword);
    if (index < 0 || found[index] != nullptr) {
      PyErr_Format(
          PyExc_TypeError,
          index < 0 ? "%s() has no argument %R; it takes name, payload and category" : "%s() got %R twice",
          who, keyword);
      return false;
    }
    found[index] = values[count + i];
  }
  *result = {found[0], found[1] == Py_None ? nullptr : found[1], found[2] == Py_None ? nullptr : found[2]};
  if (result->name == nullptr) {
    PyErr_Format(PyExc_TypeError, "%s() needs a name: profkit.%s(\"load batch\")", who, who);
    return false;
  }
  if (result->category != nullptr && !PyUnicode_Check(result->category)) {
    PyErr_Format(PyExc_TypeError, "category must be a str or None, got %.100s",
                 Py_TYPE(result->category)->tp_name);
    return false;
  }
  return true;
}

bool read_payload(PyObject* object, Payload* result) {
  if (object == nullptr) return true;
  if (PyLong_Check(object)) return read_integer(object, result);
  if (PyFloat_Check(object)) return read_float(object, result);
  const PyNumberMethods* number = Py_TYPE(object)->tp_as_number;
  if (number != nullptr && number->nb_index != nullptr) {
    PyObject* whole = PyNumber_Index(object);
    if (whole != nullptr) {
      const bool is_read = read_integer(whole, result);
      Py_DECREF(whole);
      return is_read;
    }
    // NumPy's bool has the slot but refuses; as a float it is 0 or 1.
    PyErr_Clear();
  }
  if (number != nullptr && number->nb_float != nullptr) return read_float(object, result);
  PyErr_Format(PyExc_TypeError, "payload must be a number or None, got %.100s", Py_TYPE(object)->tp_name);
  return false;
}

PyObject* payload_object(const Payload& payload) {
  if (payload.type == PROFKIT_PAYLOAD_INT64) return PyLong_FromLongLong(static_cast<long long>(payload.bits));
  if (payload.type == PROFKIT_PAYLOAD_UINT64) return PyLong_FromUnsignedLongLong(payload.bits);
  if (payload.type == PROFKIT_PAYLOAD_FLOAT64) {
    double value = 0;
    std::memcpy(&value, &payload.bits, sizeof value);
    return PyFloat_FromDouble(value);
  }
  Py_RETURN_NONE;
}

RangeName find_name(PyObject* name, PyObject* category) {
  CachedName& entry = entry_for(name, category);
  if (entry.name == name && entry.category == category && entry.ids.is_known()) return entry.ids;
  RangeName ids;
  const std::string text = utf8_of(name);
  if (category != nullptr) {
    ids.define(text, utf8_of(category));
  } else {
    ids.define(text, {});
  }
  Py_INCREF(name);
  Py_XINCREF(category);
  PyObject* old_name = entry.name;
  PyObject* old_category = entry.category;
  entry = {name, category, ids};
  Py_XDECREF(old_name);
  Py_XDECREF(old_category);
  return ids;
}

}  // namespace profkit
