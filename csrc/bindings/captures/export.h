// lay_out, write_chrome and write_perfetto for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_trace_files(pybind11::module_& module);

}  // namespace profkit
