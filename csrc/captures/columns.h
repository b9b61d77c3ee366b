// A table is a struct of columns, vectors of one length. PROFKIT_COLUMNS lists them once: what must be done
// with every column (growing, sorting, handing it to Python) goes through visit().
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace profkit::captures {

// Takes the first name off a list as it was written: "kind, source, thread".
inline std::string_view take_name(std::string_view& names) {
  const size_t end = names.find(',');
  const std::string_view name = names.substr(0, end);
  names.remove_prefix(end == std::string_view::npos ? names.size() : end + 2);
  return name;
}

template <class Table, class Action, class... Columns>
void visit_columns(const Table&, const Action& action, std::string_view names, Columns&... columns) {
  static_assert(sizeof(Table) < (sizeof...(Columns) + 1) * sizeof(std::vector<char>),
                "the list lacks a column");
  (action(take_name(names), columns), ...);
}

// After the columns of a struct: visit(action) calls action(name, column) for each, in this order. Columns of
// flags are vectors of uint8_t whose names begin with is_ or has_.
#define PROFKIT_COLUMNS(...)                                 \
  template <class Action>                                    \
  void visit(const Action& action) {                         \
    visit_columns(*this, action, #__VA_ARGS__, __VA_ARGS__); \
  }

}  // namespace profkit::captures
