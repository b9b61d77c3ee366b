// NumPy arrays in and out of captures' native code.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace profkit {

// A column as Python gives it: contiguous, converted if need be.
template <class T>
using Column = pybind11::array_t<T, pybind11::array::c_style | pybind11::array::forcecast>;

// Hands a vector to NumPy without copying it.
template <class T>
pybind11::array to_array(std::vector<T>&& values, const pybind11::dtype& dtype = pybind11::dtype::of<T>()) {
  auto made = std::make_unique<std::vector<T>>(std::move(values));
  const pybind11::capsule owner(made.get(),
                                [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
  const std::vector<T>& owned = *made.release();
  return pybind11::array(dtype, {static_cast<pybind11::ssize_t>(owned.size())},
                         {static_cast<pybind11::ssize_t>(sizeof(T))}, owned.data(), owner);
}

// The columns of a table by their names; flags as booleans.
template <class Table>
pybind11::dict to_dict(Table&& table) {
  pybind11::dict result;
  table.visit([&](std::string_view name, auto& column) {
    const bool is_flag = name.substr(0, 3) == "is_" || name.substr(0, 4) == "has_";
    const pybind11::str key(name.data(), name.size());
    result[key] =
        is_flag ? to_array(std::move(column), pybind11::dtype("bool")) : to_array(std::move(column));
  });
  return result;
}

}  // namespace profkit
