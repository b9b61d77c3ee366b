// profkit._core: a table of contents. What each function takes and gives is written in profkit/_core.pyi.
#include "bindings/module.h"

PYBIND11_MODULE(_core, module) {
  profkit::register_errors();
  profkit::register_attribution(module);
  profkit::register_calls(module);
  profkit::register_captures(module);
  profkit::register_kernels(module);
  profkit::register_machine(module);
  profkit::register_probes(module);
  profkit::register_trace_files(module);
  profkit::register_tracer(module);
  profkit::register_scope(module);
  profkit::register_scoped_function(module);
}
