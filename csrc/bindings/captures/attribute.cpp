// profkit._core.RangeTable: the ranges of a capture, checked once, and the passes over them; and the sweep
// over the steps of a network. NumPy columns in, NumPy columns out; the GIL is released while a pass runs.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/captures/arrays.h"
#include "bindings/module.h"
#include "captures/attribute/memory.h"
#include "captures/attribute/step_shares.h"
#include "captures/attribute/usage.h"

namespace py = pybind11;

namespace profkit {
namespace {

template <typename T>
const T* data_of(const Column<T>& column, size_t rows, const char* name) {
  if (column.ndim() != 1 || static_cast<size_t>(column.size()) != rows) {
    throw std::invalid_argument(std::string(name) + " must have one entry for each of " +
                                std::to_string(rows) + " rows");
  }
  return column.data();
}

void refuse(const char* problem) {
  if (problem) throw std::invalid_argument(problem);
}

template <typename Pass>
auto without_gil(const Pass& pass) {
  const py::gil_scoped_release release;
  return pass();
}

class RangeTable {
 public:
  RangeTable(Column<uint8_t> kind, Column<uint8_t> is_open, Column<int32_t> thread, Column<int32_t> parent,
             Column<int64_t> start_ns, Column<int64_t> end_ns, int32_t threads)
      : kind_(std::move(kind)),
        is_open_(std::move(is_open)),
        thread_(std::move(thread)),
        parent_(std::move(parent)),
        start_ns_(std::move(start_ns)),
        end_ns_(std::move(end_ns)) {
    const auto rows = static_cast<size_t>(kind_.size());
    view_ = {data_of(kind_, rows, "kind"),
             data_of(is_open_, rows, "is_open"),
             data_of(thread_, rows, "thread"),
             data_of(parent_, rows, "parent"),
             data_of(start_ns_, rows, "start_ns"),
             data_of(end_ns_, rows, "end_ns"),
             rows,
             threads};
    refuse(view_.check());
  }

  py::array own_times() const {
    return to_array(without_gil([this] { return captures::own_times(view_); }));
  }

  py::tuple counts_inside() const {
    auto counts = without_gil([this] { return captures::counts_inside(view_); });
    return py::make_tuple(to_array(std::move(counts.direct)), to_array(std::move(counts.at_any_depth)));
  }

  py::tuple paths(const Column<int32_t>& title) const {
    const int32_t* titles = data_of(title, view_.count, "title");
    auto paths = without_gil([&] { return captures::find_paths(view_, titles); });
    return py::make_tuple(to_array(std::move(paths.of_row)), to_array(std::move(paths.parent)),
                          to_array(std::move(paths.title)));
  }

  py::array outermost(const Column<int32_t>& group, size_t groups) const {
    const int32_t* checked = groups_of(group, groups);
    return to_array(without_gil([&] { return captures::outermost_of_group(view_, checked, groups); }));
  }

  py::dict group_times(const Column<int64_t>& own_ns, const Column<int32_t>& group, size_t groups) const {
    const int64_t* own = data_of(own_ns, view_.count, "own_ns");
    const int32_t* checked = groups_of(group, groups);
    return to_dict(without_gil([&] { return captures::group_times(view_, own, checked, groups); }));
  }

  py::array sum_by_group(const Column<int64_t>& values, const Column<uint8_t>& is_chosen,
                         const Column<int32_t>& group, size_t groups) const {
    return to_array(captures::sum_by_group(data_of(values, view_.count, "values"),
                                           data_of(is_chosen, view_.count, "is_chosen"),
                                           groups_of(group, groups), view_.count, groups));
  }

  py::array max_by_group(const Column<int64_t>& values, const Column<int32_t>& group, size_t groups) const {
    return to_array(captures::max_by_group(data_of(values, view_.count, "values"), groups_of(group, groups),
                                           view_.count, groups));
  }

  py::dict memory(const Column<int32_t>& range, const Column<int64_t>& time_ns, const Column<uint64_t>& bytes,
                  const Column<int64_t>& free_time_ns, const Column<int32_t>& free_range,
                  const Column<uint8_t>& is_part) const {
    const auto rows = static_cast<size_t>(range.size());
    const captures::AllocationView view{data_of(range, rows, "range"),
                                        data_of(time_ns, rows, "time_ns"),
                                        data_of(bytes, rows, "bytes"),
                                        data_of(free_time_ns, rows, "free_time_ns"),
                                        data_of(free_range, rows, "free_range"),
                                        data_of(is_part, rows, "is_part"),
                                        rows};
    refuse(view.check(view_.count));
    return to_dict(without_gil([&] { return captures::attribute_memory(view_, view); }));
  }

 private:
  const int32_t* groups_of(const Column<int32_t>& group, size_t groups) const {
    const int32_t* values = data_of(group, view_.count, "group");
    for (size_t row = 0; row < view_.count; ++row) {
      if (values[row] < -1 || values[row] >= static_cast<int64_t>(groups)) {
        throw std::invalid_argument("a range has group " + std::to_string(values[row]) + " of " +
                                    std::to_string(groups));
      }
    }
    return values;
  }

  // The view borrows from these.
  Column<uint8_t> kind_, is_open_;
  Column<int32_t> thread_, parent_;
  Column<int64_t> start_ns_, end_ns_;
  captures::RangeView view_{};
};

py::dict share_steps(const Column<int8_t>& level, const Column<int32_t>& step, const Column<int32_t>& thread,
                     const Column<int64_t>& start_ns, const Column<int64_t>& end_ns, int32_t threads,
                     const Column<int64_t>& step_start_ns, const Column<int64_t>& step_end_ns) {
  const auto rows = static_cast<size_t>(level.size());
  const auto count = static_cast<size_t>(step_start_ns.size());
  const captures::NetworkSpanView spans{data_of(level, rows, "level"),
                                        data_of(step, rows, "step"),
                                        data_of(thread, rows, "thread"),
                                        data_of(start_ns, rows, "start_ns"),
                                        data_of(end_ns, rows, "end_ns"),
                                        rows,
                                        threads};
  const captures::StepView steps{data_of(step_start_ns, count, "step_start_ns"),
                                 data_of(step_end_ns, count, "step_end_ns"), count};
  refuse(spans.check(count));
  refuse(steps.check());
  return to_dict(without_gil([&] { return captures::share_steps(spans, steps); }));
}

}  // namespace

void register_attribution(py::module_& module) {
  py::class_<RangeTable>(module, "RangeTable")
      .def(py::init<Column<uint8_t>, Column<uint8_t>, Column<int32_t>, Column<int32_t>, Column<int64_t>,
                    Column<int64_t>, int32_t>(),
           py::arg("kind"), py::arg("is_open"), py::arg("thread"), py::arg("parent"), py::arg("start_ns"),
           py::arg("end_ns"), py::arg("threads"))
      .def("own_times", &RangeTable::own_times)
      .def("counts_inside", &RangeTable::counts_inside)
      .def("paths", &RangeTable::paths, py::arg("title"))
      .def("outermost", &RangeTable::outermost, py::arg("group"), py::arg("groups"))
      .def("group_times", &RangeTable::group_times, py::arg("own_ns"), py::arg("group"), py::arg("groups"))
      .def("sum_by_group", &RangeTable::sum_by_group, py::arg("values"), py::arg("is_chosen"),
           py::arg("group"), py::arg("groups"))
      .def("max_by_group", &RangeTable::max_by_group, py::arg("values"), py::arg("group"), py::arg("groups"))
      .def("memory", &RangeTable::memory, py::arg("range"), py::arg("time_ns"), py::arg("bytes"),
           py::arg("free_time_ns"), py::arg("free_range"), py::arg("is_part"));
  module.def("share_steps", &share_steps, py::arg("level"), py::arg("step"), py::arg("thread"),
             py::arg("start_ns"), py::arg("end_ns"), py::arg("threads"), py::arg("step_start_ns"),
             py::arg("step_end_ns"));
}

}  // namespace profkit
