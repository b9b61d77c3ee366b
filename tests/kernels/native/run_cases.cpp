// Runs every kernel of the registry on the cases that come by standard input, and compares with the results
// that come with them: for instruction sets that only an emulator runs, and for sanitizers. Arrays are of
// exactly the size that they need; weights are packed ahead too. Leaves: "level <name>", then a line per
// kernel with its number of cases, or the first call that was wrong and by how much.
//
// A case is: the operator's place in the alphabet (int64), the operator's params, number of inputs (int64),
// each input's bytes (int64) and bytes, number of results (int64), tolerance (double), the results (double
// each).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/operators.h"
#include "runtime/cpu_features.h"

namespace {

using namespace profkit;

template <class T>
bool read(T* values, size_t count) {
  return std::fread(values, sizeof(T), count, stdin) == count;
}

int64_t read_number() {
  int64_t value = 0;
  if (!read(&value, 1)) std::exit(3);
  return value;
}

std::map<std::string, int> ran;

struct Freed {
  void operator()(char* data) const { std::free(data); }
};
using Memory = std::unique_ptr<char, Freed>;

// At a multiple of 64, as launches are promised; of NaN in every format, so that what is read unwritten
// shows.
Memory memory_of(size_t bytes) {
  void* data = nullptr;
  if (posix_memalign(&data, 64, bytes ? bytes : 1) != 0) std::exit(3);
  std::memset(data, 0xff, bytes);
  return Memory(static_cast<char*>(data));
}

template <class T>
double largest_error(const T* got, const std::vector<double>& wanted) {
  double largest = 0, error = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::fmax(largest, std::fabs(wanted[i]));
    const double difference = std::fabs(static_cast<double>(got[i]) - wanted[i]);
    error = difference <= error ? error : difference;  // NaN propagates
  }
  return error / (largest > 0 ? largest : 1);
}

template <class Params>
double error_of(const Kernel<Params>& row, const Params& params, Buffers buffers, int threads, bool ahead,
                const std::vector<double>& wanted) {
  const bool is_double = params.dtype == PROFKIT_FLOAT64;
  const Memory output = memory_of(wanted.size() * (is_double ? 8 : 4)),
               workspace = memory_of(row.workspace_bytes(params, threads, {})),
               packed = memory_of(ahead ? row.packed_bytes(params, threads, {}) : 0);
  buffers.output = output.get();
  buffers.workspace = workspace.get();
  if (ahead) {
    row.pack(params, buffers.inputs[1], packed.get(), threads, {});
    buffers.packed = packed.get();
  }
  row.launch(params, buffers, threads, {});
  return is_double ? largest_error(reinterpret_cast<double*>(output.get()), wanted)
                   : largest_error(reinterpret_cast<float*>(output.get()), wanted);
}

template <class Params>
void run_case(const std::vector<Kernel<Params>>& rows, int64_t number) {
  Params params;
  if (!read(&params, 1)) std::exit(3);
  std::vector<Memory> inputs;
  Buffers buffers;
  const int64_t count = read_number();
  for (int64_t i = 0; i < count; ++i) {
    const auto bytes = static_cast<size_t>(read_number());
    inputs.push_back(memory_of(bytes));
    if (!read(inputs.back().get(), bytes)) std::exit(3);
    buffers.inputs[i] = inputs.back().get();
  }
  std::vector<double> wanted(static_cast<size_t>(read_number()));
  double tolerance = 0;
  if (!read(&tolerance, 1) || !read(wanted.data(), wanted.size())) std::exit(3);
  for (const Kernel<Params>& row : rows) {
    if (!row.supports(params).empty()) continue;
    for (const int threads : {1, 3}) {
      for (const bool ahead : {false, true}) {
        if (ahead && (!row.pack || row.packed_bytes(params, threads, {}) == 0)) continue;
        const double error = error_of(row, params, buffers, threads, ahead, wanted);
        if (error <= tolerance) continue;
        std::printf("wrong %s case %lld threads %d error %g tolerance %g%s\n", row.key.c_str(),
                    static_cast<long long>(number), threads, error, tolerance, ahead ? " packed ahead" : "");
        std::exit(1);
      }
    }
    ++ran[row.key];
  }
}

}  // namespace

int main() {
  std::printf("level %s\n", simd_name(active_simd()));
  int64_t op = 0;
  for (int64_t number = 0; read(&op, 1); ++number) {
    with_operator(kOperators[op], [&](const auto& rows) { run_case(rows, number); });
  }
  for (const auto& [key, count] : ran) std::printf("%s %d\n", key.c_str(), count);
}
