// Finds libprofkit_inject.so beside this module, attaches to it, and starts and stops captures for Python.
#include "bindings/tracer/library.h"

#include <pybind11/stl.h>

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/errors.h"
#include "bindings/module.h"

namespace py = pybind11;

namespace profkit {

namespace {
constexpr uint32_t kNotRecording = 0;
constexpr const char* kLibraryName = "libprofkit_inject.so";
}  // namespace

std::atomic<const profkit_tracer_api*> tracer_api{nullptr};
std::atomic<const uint32_t*> recording_flag{&kNotRecording};
bool has_nvtx_tool = false;

namespace {

// The running capture was begun through this module, not by the environment. Guarded by the GIL.
bool is_started_here = false;

#if !defined(_WIN32)
std::string library_path() {
  Dl_info found{};
  if (dladdr(&kNotRecording, &found) == 0 || found.dli_fname == nullptr) return "";
  const std::string module = found.dli_fname;
  const size_t slash = module.rfind('/');
  return (slash == std::string::npos ? std::string() : module.substr(0, slash + 1)) + kLibraryName;
}

// Empty on success, else why not. `mode` RTLD_NOLOAD attaches only to a library that is already there.
std::string attach(int mode) {
  if (tracer_api.load() != nullptr) return "";
  const std::string path = library_path();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | mode);
  if (library == nullptr) {
    const char* reason = dlerror();
    return reason != nullptr ? reason : path + " is not loaded";
  }
  using Entry = const profkit_tracer_api* (*)(uint32_t);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "profkit_tracer"));
  const profkit_tracer_api* api = entry != nullptr ? entry(PROFKIT_TRACER_API_VERSION) : nullptr;
  if (api == nullptr) return path + " is of another version of profkit; install profkit again";
  // Never closed: threads may be inside it at any time.
  tracer_api.store(api);
  recording_flag.store(api->recording);
  return "";
}
constexpr int kOnlyIfLoaded = RTLD_NOLOAD;
#else
std::string library_path() { return ""; }
std::string attach(int) { return "recording needs Linux"; }
constexpr int kOnlyIfLoaded = 0;
#endif

[[noreturn]] void raise(const char* type, const std::string& message) {
  set_error(type, message.c_str());
  throw py::error_already_set();
}

const profkit_tracer_api& loaded_api() {
  const std::string problem = attach(0);
  if (!problem.empty()) raise("UnavailableError", "the tracer cannot be loaded: " + problem);
  return *tracer_api.load();
}

// Calls without the GIL; what is returned is nullptr, or why it failed.
template <class Call>
void require_success(const Call& call) {
  std::string reason;
  {
    const py::gil_scoped_release release;
    const char* text = call();
    if (text != nullptr) reason = text;
  }
  if (!reason.empty()) raise("ProfkitError", reason);
}

py::str decoded(const char* text, const char* errors) {
  return py::str(py::bytes(text).attr("decode")("utf-8", errors));
}

void start(const std::string& path, const std::string& options) {
  const profkit_tracer_api& api = loaded_api();
  require_success([&] { return api.start(path.c_str(), options.c_str()); });
  is_started_here = true;
}

void stop() {
  const profkit_tracer_api* api = tracer_api.load();
  if (api == nullptr) return;
  is_started_here = false;
  require_success([&] { return api->stop(); });
}

void flush() {
  const profkit_tracer_api* api = tracer_api.load();
  if (api == nullptr) return;
  const py::gil_scoped_release release;
  api->flush();
}

std::string cupti_message(const profkit_tracer_api& api) {
  profkit_cupti_findings status;
  api.cupti_status(&status);
  return status.reason;
}

py::dict find_cupti(const std::string& wheels) {
  const profkit_tracer_api& api = loaded_api();
  profkit_cupti_findings found;
  {
    const py::gil_scoped_release release;
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    api.examine_cupti(wheels.c_str(), &found);
  }
  py::dict result;
  result["library"] = decoded(found.library, "surrogateescape");
  result["version"] = found.version;
  result["is_usable"] = found.is_usable != 0;
  result["reason"] = decoded(found.reason, "replace");
  return result;
}

// The names, the mangled ones of them demangled. Any bytes may be in them.
py::list demangle_names(const std::vector<std::string>& names) {
  constexpr size_t kMaxBytes = 16384;
  const profkit_tracer_api* const api = attach(0).empty() ? tracer_api.load() : nullptr;
  std::vector<char> text(kMaxBytes);
  py::list result;
  for (const std::string& name : names) {
    const size_t bytes = api != nullptr ? api->demangle(name.c_str(), text.data(), text.size()) : 0;
    const py::bytes found = bytes != 0 ? py::bytes(text.data(), bytes) : py::bytes(name);
    result.append(found.attr("decode")("utf-8", "replace"));
  }
  return result;
}

py::dict state() {
  attach(kOnlyIfLoaded);
  const profkit_tracer_api* api = tracer_api.load();
  const char* path = api != nullptr ? api->capture_path() : nullptr;
  const uint32_t doors = api != nullptr ? api->open_doors() : 0;
  py::dict result;
  result["is_loaded"] = api != nullptr;
  result["is_recording"] = is_recording();
  result["is_started_here"] = is_recording() && is_started_here;
  result["path"] = decoded(path != nullptr ? path : "", "surrogateescape");
  result["nvtx"] = (doors & 1u) != 0;
  result["itt"] = (doors & 2u) != 0;
  result["allocations"] = (doors & 4u) != 0;
  result["cupti"] = (doors & 8u) != 0;
  result["cupti_message"] = api != nullptr ? cupti_message(*api) : "";
  result["dropped"] = api != nullptr ? api->dropped() : 0;
  result["other_nvtx_tool"] = has_nvtx_tool;
  return result;
}

}  // namespace

void RangeName::define(std::string_view name, std::string_view category) {
  const profkit_tracer_api* api = tracer_api.load(std::memory_order_relaxed);
  if (label == 0 && api != nullptr) {
    label = api->label(name.data(), name.size(), category.data(), category.size());
  }
  if (nvtx_name == 0 && has_nvtx_tool) {
    nvtx_name = nvtx_register(std::string(name).c_str());
    if (category.data() != nullptr) nvtx_category = profkit::nvtx_category(std::string(category).c_str());
  }
}

OpenTokens begin_range(const RangeName& name, const Payload& payload) {
  OpenTokens tokens;
  if (is_recording()) {
    const profkit_tracer_api* api = tracer_api.load(std::memory_order_relaxed);
    tokens.recorded = payload.type == 0 ? api->begin(name.label)
                                        : api->begin_with_payload(name.label, payload.type, payload.bits);
  }
  if (has_nvtx_tool) tokens.nvtx = nvtx_push(name.for_nvtx(payload)) ? 1 : 0;
  return tokens;
}

void end_range(const OpenTokens& tokens, bool is_same_thread) {
  if (tokens.recorded != 0) tracer_api.load(std::memory_order_relaxed)->end(tokens.recorded);
  if (tokens.nvtx != 0 && is_same_thread) nvtx_pop();
}

OpenTokens begin_span(const RangeName& name, const Payload& payload) {
  OpenTokens tokens;
  if (is_recording()) {
    const profkit_tracer_api* api = tracer_api.load(std::memory_order_relaxed);
    tokens.recorded = api->span_begin(name.label, payload.type, payload.bits);
  }
  if (has_nvtx_tool) tokens.nvtx = nvtx_range_start(name.for_nvtx(payload));
  return tokens;
}

void end_span(const OpenTokens& tokens) {
  if (tokens.recorded != 0) tracer_api.load(std::memory_order_relaxed)->span_end(tokens.recorded);
  if (tokens.nvtx != 0) nvtx_range_end(tokens.nvtx);
}

void record_mark(const RangeName& name, const Payload& payload) {
  if (is_recording()) {
    tracer_api.load(std::memory_order_relaxed)->mark(name.label, payload.type, payload.bits);
  }
  if (has_nvtx_tool) nvtx_mark(name.for_nvtx(payload));
}

void register_tracer(py::module_& module) {
  // A traced process has the library already, or (where preloading was refused) wants it.
  attach(std::getenv("PROFKIT_TRACE_FILE") != nullptr ? 0 : kOnlyIfLoaded);
  // Calling NVTX loads the tool, so it is called only where one is announced.
  has_nvtx_tool = std::getenv("NVTX_INJECTION64_PATH") != nullptr && nvtx_tool_present();

  module.def("tracer_library_path", &library_path);
  module.def("tracer_start", &start, py::arg("path"), py::arg("options"));
  module.def("tracer_stop", &stop);
  module.def("tracer_flush", &flush);
  module.def("tracer_state", &state);
  module.def("demangle_names", &demangle_names, py::arg("names"));
  module.def("tracer_find_cupti", &find_cupti, py::arg("wheels"));
}

}  // namespace profkit
