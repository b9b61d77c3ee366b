// Structs that list their members once, with PROFKIT_MEMBERS: what must be done with every member (growing
// and sorting the columns of a table, handing them to Python) goes through visit().
#pragma once

#include <cstddef>
#include <string_view>

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

// Inside a struct, after its members: visit(action) calls action(name, member) for each, in this order. A
// table is a struct of columns, vectors of one length; columns of flags are vectors of uint8_t whose names
// begin with is_ or has_.
#define PROFKIT_MEMBERS(...)                                 \
  template <class Action>                                    \
  void visit(const Action& action) {                         \
    visit_members(*this, action, #__VA_ARGS__, __VA_ARGS__); \
  }

}  // namespace profkit::captures
