// What each binding adds to profkit._core (module.cpp) or to profkit._cuda (cuda/module.cpp).
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_errors();
void register_attribution(pybind11::module_& module);
void register_calls(pybind11::module_& module);
void register_captures(pybind11::module_& module);
void register_kernels(pybind11::module_& module);
void register_machine(pybind11::module_& module);
void register_probes(pybind11::module_& module);
void register_trace_files(pybind11::module_& module);
void register_tracer(pybind11::module_& module);
void register_scope(pybind11::module_& module);
void register_scoped_function(pybind11::module_& module);

void register_cuda_errors();
void register_cuda_devices(pybind11::module_& module);
void register_cuda_kernels(pybind11::module_& module);
void register_cuda_timer(pybind11::module_& module);

}  // namespace profkit
