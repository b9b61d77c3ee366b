// Block sizes that a tuner may choose: the candidates, and the check of a request.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/cpu/entry.h"

namespace profkit {

// Names of tunables and the requested sizes; the policy decides what is not named.
using Tuning = std::map<std::string, int64_t>;

// Sizes worth trying instead of the chosen one: they cut the whole into a half, a quarter, twice ... as many
// parts.
std::vector<int64_t> candidate_values(const CpuTunable& tunable);

// The sizes as the kernel takes them; KernelError for an unknown name and for a size that cannot be.
CpuBlocks checked_blocks(const std::string& key, const CpuTunables& known, const Tuning& requested);

}  // namespace profkit
