// Candidates follow from the number of parts, not from the size: equal parts leave no small rest at the end.
#include "kernels/cpu/tuning.h"

#include <algorithm>
#include <cmath>

#include "runtime/check.h"

namespace profkit {
namespace {

constexpr double kPartsFactors[] = {0.25, 0.5, 2.0 / 3.0, 1.5, 2.0, 4.0};

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

void require_size(const std::string& key, const CpuTunable& tunable, int64_t size) {
  if (size >= tunable.unit && size <= tunable.most && size % tunable.unit == 0) return;
  throw KernelError("tuning: " + std::string(tunable.name) + " of " + key + " must be a multiple of " +
                    std::to_string(tunable.unit) + " between " + std::to_string(tunable.unit) + " and " +
                    std::to_string(tunable.most) + " here, got " + std::to_string(size));
}

}  // namespace

std::vector<int64_t> candidate_values(const CpuTunable& tunable) {
  const int64_t most_units = tunable.most / tunable.unit;
  const auto parts = static_cast<double>(divided_up(tunable.most, std::max<int64_t>(1, tunable.chosen)));
  std::vector<int64_t> sizes;
  for (const double factor : kPartsFactors) {
    const int64_t wanted =
        std::clamp<int64_t>(std::llround(parts * factor), 1, std::max<int64_t>(1, most_units));
    const int64_t size = divided_up(most_units, wanted) * tunable.unit;
    const bool is_new = std::find(sizes.begin(), sizes.end(), size) == sizes.end();
    if (size > 0 && size != tunable.chosen && is_new) sizes.push_back(size);
  }
  return sizes;
}

CpuBlocks checked_blocks(const std::string& key, const CpuTunables& known, const Tuning& requested) {
  CpuBlocks blocks = {};
  for (const auto& [name, size] : requested) {
    const CpuTunable* end = known.list + known.count;
    const CpuTunable* found =
        std::find_if(known.list, end, [&](const CpuTunable& tunable) { return name == tunable.name; });
    if (found == end) {
      std::string names;
      for (const CpuTunable* item = known.list; item != end; ++item) {
        names += std::string(names.empty() ? "" : ", ") + item->name;
      }
      throw KernelError("tuning: " + key + " has no size named " + name + " for these parameters; " +
                        (names.empty() ? "there is nothing to choose" : "there is " + names));
    }
    require_size(key, *found, size);
    blocks.*(found->field) = size;
  }
  return blocks;
}

}  // namespace profkit
