// Runs every kernel of the registry on the cases that come by standard input, and compares with the results
// that come with them: for instruction sets that only an emulator runs. Leaves: "level <name>", then a line
// per kernel with its number of cases, or the first case that failed and by how much.
//
// A case is: the operator's place in the alphabet (int64), the operator's params, number of inputs (int64),
// each input's bytes (int64) and bytes, number of results (int64), tolerance (double), the results (double
// each).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
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

// Memory at a multiple of 64, as launches are promised.
struct Memory {
  explicit Memory(size_t bytes) : all(bytes + 64, '\xff') {}
  char* data() { return all.data() + (64 - reinterpret_cast<uintptr_t>(all.data()) % 64) % 64; }
  std::vector<char> all;
};

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
void run_case(const std::vector<Kernel<Params>>& rows, int64_t number) {
  Params params;
  if (!read(&params, 1)) std::exit(3);
  std::vector<Memory> inputs;
  Buffers buffers;
  const int64_t count = read_number();
  for (int64_t i = 0; i < count; ++i) {
    inputs.emplace_back(static_cast<size_t>(read_number()));
    if (!read(inputs.back().data(), inputs.back().all.size() - 64)) std::exit(3);
  }
  for (size_t i = 0; i < inputs.size(); ++i) buffers.inputs[i] = inputs[i].data();
  std::vector<double> wanted(static_cast<size_t>(read_number()));
  double tolerance = 0;
  if (!read(&tolerance, 1) || !read(wanted.data(), wanted.size())) std::exit(3);
  const bool is_double = params.dtype == PROFKIT_FLOAT64;
  for (const Kernel<Params>& row : rows) {
    if (!row.supports(params).empty()) continue;
    for (int threads = 1; threads <= 2; ++threads) {
      Memory output(wanted.size() * (is_double ? 8 : 4)), workspace(row.workspace_bytes(params, threads));
      buffers.output = output.data();
      buffers.workspace = workspace.data();
      row.launch(params, buffers, threads);
      const double error = is_double ? largest_error(reinterpret_cast<double*>(output.data()), wanted)
                                     : largest_error(reinterpret_cast<float*>(output.data()), wanted);
      if (!(error <= tolerance)) {
        std::printf("wrong %s case %lld threads %d error %g tolerance %g\n", row.key.c_str(),
                    static_cast<long long>(number), threads, error, tolerance);
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
