// Structs that list their members once, with PROFKIT_MEMBERS: what must be done with every member (growing
// and sorting the columns of a table, handing them to Python) goes through visit().
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>

namespace profkit::captures {

// Takes the first name off a list as it was written: "kind, source, thread".
inline std::string_view take_name(std::string_view& names) {
  const size_t end = names.find(',');
  const std::string_view name = names.substr(0, end);
  names.remove_prefix(end == std::string_view::npos ? names.size() : end + 2);
  return name;
}

template <class Struct, class Action, class... Members>
void visit_members(const Struct&, const Action& action, std::string_view names, Members&... members) {
  static_assert(sizeof(Struct) - (sizeof(Members) + ...) < alignof(Struct), "the list lacks a member");
  (action(take_name(names), members), ...);
}

// Braces: a value that its column could not hold does not compile.
template <class... Values, class... Columns>
void append_row(std::tuple<Columns&...> columns, const Values&... values) {
  static_assert(sizeof...(Columns) == sizeof...(Values), "a row has a value for each column");
  std::apply([&](auto&... column) { (column.push_back({values}), ...); }, columns);
}

// Inside a struct, after its members: visit(action) calls action(name, member) for each, in this order. A
// table is a struct of columns, vectors of one length, to which append(values...) adds a row; columns of
// flags are vectors of uint8_t whose names begin with is_ or has_.
#define PROFKIT_MEMBERS(...)                                 \
  template <class Action>                                    \
  void visit(const Action& action) {                         \
    visit_members(*this, action, #__VA_ARGS__, __VA_ARGS__); \
  }                                                          \
  template <class... Values>                                 \
  void append(const Values&... values) {                     \
    append_row(std::tie(__VA_ARGS__), values...);            \
  }

}  // namespace profkit::captures
