// Runs cases of one operator's CUDA kernels and writes their results: built with the emulator (the .cu files
// as C++) or from nvcc's host objects on the libcudart double. PROFKIT_FAMILY is the operator,
// PROFKIT_PARAMS_HEADER the header of its parameters.
//
// Request: u32 cases; each: text key, u32 capability, i32 configuration, bytes params, u32 inputs, bytes
// each, u64 size of the output. Answer: each case: text error (empty: none), u64 workspace bytes, bytes
// output. Texts and bytes are a u64 length and the bytes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/registry.h"
#include PROFKIT_PARAMS_HEADER
#if defined(PROFKIT_EMULATED)
#include "simt_launch.h"
#endif

#define PROFKIT_JOIN_(a, b) a##b
#define PROFKIT_JOIN(a, b) PROFKIT_JOIN_(a, b)
using Params = PROFKIT_JOIN(PROFKIT_JOIN(profkit_, PROFKIT_FAMILY), _params);
#define PROFKIT_ROWS PROFKIT_JOIN(PROFKIT_FAMILY, _cuda_kernels)
namespace profkit {
const std::vector<CudaKernel<Params>>& PROFKIT_ROWS();
}

namespace {

using Bytes = std::string;

class Reader {
 public:
  explicit Reader(const char* path) : file_(std::fopen(path, "rb")) {
    if (file_ == nullptr) throw std::runtime_error("no request file");
  }
  template <class T>
  T number() {
    T value{};
    take(&value, sizeof value);
    return value;
  }
  Bytes bytes() {
    Bytes result(number<uint64_t>(), '\0');
    take(result.data(), result.size());
    return result;
  }

 private:
  void take(void* target, size_t size) {
    if (std::fread(target, 1, size, file_) != size) throw std::runtime_error("the request file is too short");
  }
  std::FILE* file_;
};

// As cudaMalloc gives it: aligned to 256; filled with NaN, so that what is never written is seen. Exactly as
// long as asked for: one byte behind it is AddressSanitizer's.
struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
std::unique_ptr<void, Freed> device_memory(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes) != 0) throw std::bad_alloc();
  std::memset(memory, 0xff, bytes);
  return std::unique_ptr<void, Freed>(memory);
}

const profkit::CudaKernel<Params>& row_of(const std::string& key) {
  for (const auto& row : profkit::PROFKIT_ROWS()) {
    if (row.key == key) return row;
  }
  throw std::runtime_error("unknown kernel " + key);
}

void put(std::FILE* file, const void* data, uint64_t size) {
  std::fwrite(&size, sizeof size, 1, file);
  std::fwrite(data, 1, size, file);
}

void run_case(Reader& request, std::FILE* answer) {
  const std::string key = request.bytes();
  profkit::CudaCall call;
  call.device.capability = static_cast<int>(request.number<uint32_t>());
  // The least that a device of sm_75, or one from sm_80 on, has.
  call.device.shared_bytes_per_block = (call.device.capability < 80 ? 64 : 99) * 1024;
  call.configuration = request.number<int32_t>();
  const Bytes params_bytes = request.bytes();
  Params params;
  std::memcpy(&params, params_bytes.data(), sizeof params);
  std::vector<std::unique_ptr<void, Freed>> inputs;
  profkit::Buffers buffers;
  const auto count = request.number<uint32_t>();
  for (uint32_t i = 0; i < count; ++i) {
    const Bytes data = request.bytes();
    inputs.push_back(device_memory(data.size()));
    std::memcpy(inputs.back().get(), data.data(), data.size());
    buffers.inputs[i] = inputs.back().get();
  }
  const auto output_bytes = request.number<uint64_t>();
  const auto output = device_memory(output_bytes);
  buffers.output = output.get();
  std::string error;
  uint64_t workspace_bytes = 0;
  try {
    const auto& row = row_of(key);
    error =
        params_bytes.size() == sizeof params ? row.supports(params, call.device) : "params of another size";
    if (!error.empty()) error = "unsupported: " + error;
    if (error.empty()) {
      call = row.resolved(params, call);
      workspace_bytes = row.workspace_bytes(params, call);
      const auto workspace = device_memory(workspace_bytes);
      buffers.workspace = workspace_bytes ? workspace.get() : nullptr;
      row.launch(params, buffers, call);
    }
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  put(answer, error.data(), error.size());
  std::fwrite(&workspace_bytes, sizeof workspace_bytes, 1, answer);
  put(answer, output.get(), error.empty() ? output_bytes : 0);
}

void list_rows() {
  for (const auto& row : profkit::PROFKIT_ROWS()) {
    std::string names;
    for (const std::string& name : row.configuration_names({}, {90})) names += " " + name;
    std::printf("%s%s\n", row.key.c_str(), names.c_str());
  }
}

}  // namespace

// run_kernels ORDER SEED REQUEST ANSWER, or no argument: the rows' keys, each with its configurations.
int main(int count, char** words) try {
  if (count < 5) {
    list_rows();
    return 0;
  }
#if defined(PROFKIT_EMULATED)
  const std::string order = words[1];
  simt::set_order(order == "ascending"    ? simt::Order::ascending
                  : order == "descending" ? simt::Order::descending
                                          : simt::Order::random,
                  std::strtoull(words[2], nullptr, 10));
#endif
  Reader request(words[3]);
  std::FILE* const answer = std::fopen(words[4], "wb");
  if (answer == nullptr) throw std::runtime_error("the answer file cannot be written");
  const auto cases = request.number<uint32_t>();
  for (uint32_t i = 0; i < cases; ++i) run_case(request, answer);
  return std::fclose(answer);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
