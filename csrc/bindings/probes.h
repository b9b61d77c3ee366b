// Doors for tests into parts of the runtime that no public function shows.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_probes(pybind11::module_& module);

}  // namespace profkit
