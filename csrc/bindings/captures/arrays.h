// NumPy arrays in and out of captures' native code.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
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

template <class Struct>
pybind11::dict to_dict(Struct&& source);

template <class T>
pybind11::object to_object(std::string_view name, std::vector<T>& column) {
  const bool is_flag = name.substr(0, 3) == "is_" || name.substr(0, 4) == "has_";
  return is_flag ? to_array(std::move(column), pybind11::dtype("bool")) : to_array(std::move(column));
}
template <class Member>
pybind11::object to_object(std::string_view, Member& member) {
  if constexpr (std::is_arithmetic_v<Member> || std::is_same_v<Member, std::string>) {
    return pybind11::cast(member);
  } else {
    return to_dict(std::move(member));
  }
}

// The members of a struct by their names: columns as arrays (flags as booleans), structs as dicts. It is left
// empty.
template <class Struct>
pybind11::dict to_dict(Struct&& source) {
  pybind11::dict result;
  source.visit([&](std::string_view name, auto& member) {
    result[pybind11::str(name.data(), name.size())] = to_object(name, member);
  });
  return result;
}

}  // namespace profkit
