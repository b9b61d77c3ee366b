// Trace files for Python: profkit.rendering.traces.content.TraceContent goes in by its attributes, bytes go
// to a callable. Columns are checked here, so that the serialisers need not be.
#include <pybind11/stl.h>

#include <deque>
#include <string>
#include <vector>

#include "bindings/captures/arrays.h"
#include "bindings/module.h"
#include "captures/export/trace_content.h"
#include "captures/export/trace_layout.h"

namespace py = pybind11;

namespace profkit {
namespace {

using captures::TraceContent;

// Holds what the views of a TraceContent point to.
class ContentHolder {
 public:
  explicit ContentHolder(const py::object& source) {
    content.base_unix_ns = source.attr("base_unix_ns").cast<int64_t>();
    for (const py::handle text : source.attr("strings")) content.strings.push_back(keep(text));
    content.payload_name = string_index(source.attr("payload_name"));
    content.payload_bytes_name = string_index(source.attr("payload_bytes_name"));
    read_processes(source);
    read_tracks(source);
    read_devices(source);
    read_events(source.attr("events"));
    read_arguments(source);
    read_flows(source);
    read_counters(source);
    content.about = pairs(source.attr("about"));
    content.members = pairs(source.attr("members"));
  }

  TraceContent content;

 private:
  std::string_view keep(const py::handle& text) {
    // Half a surrogate pair has no UTF-8; it becomes a question mark.
    PyObject* bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "replace");
    if (bytes == nullptr) throw py::error_already_set();
    kept_.push_back(py::reinterpret_steal<py::object>(bytes));
    return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
  }

  std::vector<std::pair<std::string_view, std::string_view>> pairs(const py::object& source) {
    std::vector<std::pair<std::string_view, std::string_view>> made;
    for (const py::handle pair : source) {
      made.emplace_back(keep(pair.attr("__getitem__")(0)), keep(pair.attr("__getitem__")(1)));
    }
    return made;
  }

  template <class T>
  const T* column(const py::object& source, size_t count, const char* what) {
    const auto array = Column<T>::ensure(source);
    if (!array) throw py::error_already_set();
    if (array.ndim() != 1 || static_cast<size_t>(array.size()) != count) {
      throw py::value_error(std::string(what) + " has " + std::to_string(array.size()) + " values, not " +
                            std::to_string(count));
    }
    kept_.push_back(array);
    return array.data();
  }

  // A column of indices from `least` on and below `end`.
  const int32_t* indices(const py::object& source, size_t count, int32_t least, size_t end,
                         const char* what) {
    const int32_t* values = column<int32_t>(source, count, what);
    for (size_t i = 0; i < count; ++i) {
      if (values[i] < least || values[i] >= static_cast<int64_t>(end)) {
        throw py::value_error(std::string(what) + " " + std::to_string(values[i]) + " of row " +
                              std::to_string(i) + " is not one of " + std::to_string(end));
      }
    }
    return values;
  }

  int32_t index(const py::object& value, size_t end, const char* what) {
    const auto number = value.cast<int32_t>();
    if (number < 0 || static_cast<size_t>(number) >= end) {
      throw py::value_error(std::string(what) + " " + std::to_string(number) + " is not one of " +
                            std::to_string(end));
    }
    return number;
  }
  int32_t string_index(const py::object& value) { return index(value, content.strings.size(), "string"); }

  void read_processes(const py::object& source) {
    for (const py::handle process : source.attr("processes")) {
      captures::TraceProcess made{process.attr("pid").cast<int32_t>(), keep(process.attr("name")), {}, false};
      for (const py::handle word : process.attr("command")) made.command.push_back(keep(word));
      made.is_gpu = process.attr("is_gpu").cast<bool>();
      content.processes.push_back(std::move(made));
    }
  }

  void read_tracks(const py::object& source) {
    for (const py::handle track : source.attr("tracks")) {
      const auto thread = track.attr("thread").cast<int32_t>();
      // A lane follows its thread.
      if (thread >= static_cast<int64_t>(content.tracks.size()))
        throw py::value_error("a lane without its thread");
      content.tracks.push_back({index(track.attr("process"), content.processes.size(), "process"),
                                track.attr("tid").cast<int32_t>(), keep(track.attr("name")),
                                track.attr("rank").cast<int32_t>(), thread,
                                track.attr("queue").cast<int32_t>()});
    }
  }

  void read_devices(const py::object& source) {
    for (const py::handle gpu : source.attr("gpus")) {
      content.gpus.push_back({gpu.attr("id").cast<int32_t>(), keep(gpu.attr("name")),
                              keep(gpu.attr("architecture")),
                              pairs(py::reinterpret_borrow<py::object>(gpu.attr("about")))});
    }
    for (const py::handle queue : source.attr("queues")) {
      content.queues.push_back({queue.attr("gpu").cast<int32_t>(),
                                index(queue.attr("process"), content.processes.size(), "process"),
                                keep(queue.attr("name"))});
    }
    for (const captures::TraceTrack& track : content.tracks) {
      if (track.queue >= static_cast<int64_t>(content.queues.size()))
        throw py::value_error("a lane without its queue");
    }
    if (!source.attr("labels").is_none()) {
      const size_t strings = content.strings.size();
      content.labels = indices(source.attr("labels"), strings, -1, strings, "label");
    }
    const py::object launches = source.attr("launches");
    if (launches.is_none()) return;
    captures::TraceLaunches& read = content.launches;
    read.count = py::len(launches.attr("registers"));
    const auto numbers = [&](const char* name) {
      return column<int32_t>(launches.attr(name), read.count, name);
    };
    const char* const axes[2][3] = {{"grid_x", "grid_y", "grid_z"}, {"block_x", "block_y", "block_z"}};
    for (size_t axis = 0; axis < 3; ++axis) {
      read.grid[axis] = numbers(axes[0][axis]);
      read.block[axis] = numbers(axes[1][axis]);
    }
    read.registers = numbers("registers");
    read.static_shared_bytes = numbers("static_shared_bytes");
    read.dynamic_shared_bytes = numbers("dynamic_shared_bytes");
  }

  void read_flows(const py::object& source) {
    const py::object flows = source.attr("flows");
    if (flows.is_none()) return;
    captures::TraceFlows& read = content.flows;
    read.count = py::len(flows.attr("start"));
    read.from = indices(flows.attr("start"), read.count, 0, content.events.count, "start of an arrow");
    read.to = indices(flows.attr("end"), read.count, 0, content.events.count, "end of an arrow");
    for (size_t flow = 1; flow < read.count; ++flow) {
      if (read.from[flow] < read.from[flow - 1])
        throw py::value_error("arrows are not in the order of their starts");
    }
  }

  void read_events(const py::object& source) {
    captures::TraceEvents& events = content.events;
    const size_t strings = content.strings.size();
    const size_t count = events.count = py::len(source.attr("track"));
    events.shape = column<uint8_t>(source.attr("shape"), count, "shape");
    events.track = indices(source.attr("track"), count, 0, content.tracks.size(), "track");
    events.depth = indices(source.attr("depth"), count, 0, count, "depth");
    events.start_ns = column<int64_t>(source.attr("start_ns"), count, "start_ns");
    events.end_ns = column<int64_t>(source.attr("end_ns"), count, "end_ns");
    events.name = indices(source.attr("name"), count, 0, strings, "name");
    events.category = indices(source.attr("category"), count, -1, strings, "category");
    if (!source.attr("payload_type").is_none()) {
      events.payload_type = column<uint8_t>(source.attr("payload_type"), count, "payload_type");
      events.payload = column<uint64_t>(source.attr("payload"), count, "payload");
    }
    if (!source.attr("flow").is_none()) events.flow = column<int32_t>(source.attr("flow"), count, "flow");
    if (!source.attr("launch").is_none())
      events.launch = indices(source.attr("launch"), count, -1, content.launches.count, "launch");
  }

  void read_arguments(const py::object& source) {
    const size_t count = content.events.count;
    for (const py::handle item : source.attr("texts")) {
      const auto [name, values] = item.cast<std::pair<py::object, py::object>>();
      content.texts.push_back(
          {string_index(name), indices(values, count, -1, content.strings.size(), "text")});
    }
    for (const py::handle item : source.attr("counts")) {
      const auto [name, values] = item.cast<std::pair<py::object, py::object>>();
      content.counts.push_back({string_index(name), column<int64_t>(values, count, "count")});
    }
  }

  void read_counters(const py::object& source) {
    for (const py::handle item : source.attr("counters")) {
      const py::object times = item.attr("time_ns");
      const size_t count = py::len(times);
      content.counters.push_back({index(item.attr("process"), content.processes.size(), "process"),
                                  keep(item.attr("name")), keep(item.attr("unit")), count,
                                  column<int64_t>(times, count, "time_ns"),
                                  column<int64_t>(item.attr("value"), count, "value")});
    }
  }

  std::deque<py::object> kept_;
};

template <void (*serialise)(const TraceContent&, const captures::WriteBytes&)>
void write_trace(const py::object& source, const py::object& write) {
  const ContentHolder holder(source);
  const py::gil_scoped_release release;
  serialise(holder.content, [&](const char* bytes, size_t size) {
    const py::gil_scoped_acquire acquire;
    write(py::memoryview::from_memory(bytes, static_cast<py::ssize_t>(size)));
  });
}

py::tuple lay_out(const Column<uint8_t>& kind, const Column<int32_t>& thread, const Column<int64_t>& start_ns,
                  const Column<int64_t>& end_ns, const Column<int32_t>& parent, size_t threads) {
  const auto count = static_cast<size_t>(kind.size());
  for (const auto size : {thread.size(), start_ns.size(), end_ns.size(), parent.size()}) {
    if (static_cast<size_t>(size) != count) throw py::value_error("columns of different lengths");
  }
  for (size_t row = 0; row < count; ++row) {
    if (thread.data()[row] < 0 || static_cast<size_t>(thread.data()[row]) >= threads) {
      throw py::value_error("thread " + std::to_string(thread.data()[row]) + " of row " +
                            std::to_string(row) + " is not one of " + std::to_string(threads));
    }
    const bool follows =
        row == 0 || thread.data()[row] > thread.data()[row - 1] ||
        (thread.data()[row] == thread.data()[row - 1] && start_ns.data()[row] >= start_ns.data()[row - 1]);
    if (!follows) throw py::value_error("row " + std::to_string(row) + " follows one that begins later");
  }
  captures::TraceLayout layout;
  {
    const captures::LayoutInput input{count,           threads,       kind.data(),  thread.data(),
                                      start_ns.data(), end_ns.data(), parent.data()};
    const py::gil_scoped_release release;
    layout = captures::lay_out(input);
  }
  return py::make_tuple(to_array(std::move(layout.lane)), to_array(std::move(layout.depth)),
                        to_array(std::move(layout.lanes_of_thread)));
}

}  // namespace

void register_trace_files(py::module_& module) {
  module.def("lay_out", &lay_out, py::arg("kind"), py::arg("thread"), py::arg("start_ns"), py::arg("end_ns"),
             py::arg("parent"), py::arg("threads"));
  module.def("write_chrome", &write_trace<captures::write_chrome>, py::arg("content"), py::arg("write"));
  module.def("write_perfetto", &write_trace<captures::write_perfetto>, py::arg("content"), py::arg("write"));
}

}  // namespace profkit
