// Blocks about GPUs into columns: the entries of one process go in, rows on the capture's clock come out.
#pragma once

#include <cstdint>
#include <vector>

#include "captures/read/blocks.h"
#include "captures/read/names.h"
#include "captures/read/reader.h"
#include "captures/read/replay.h"

namespace profkit::captures {

// The tokens that the blocks name, without rows.
TokenRows wanted_tokens(const std::vector<Block>& blocks);

// False when an entry is truncated or shorter than its kind requires; the entries before it are kept.
bool is_well_formed(const Block& block);

struct DeviceContext {
  int32_t process;
  int64_t origin_ns;
  const Names& names;
  const TokenRows& tokens;
  const RangeColumns& ranges;
};

// Appends the process's rows.
DeviceCounts append_device_rows(const std::vector<Block>& blocks, const DeviceContext& context,
                                DeviceColumns& rows);

}  // namespace profkit::captures
