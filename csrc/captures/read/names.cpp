// Definition entries, checked one by one.
#include "captures/read/names.h"

#include "captures/read/blocks.h"
#include "tracer/file/utf8.h"

namespace profkit::captures {
namespace {

using tracer::DefinitionEntry;
using tracer::DefinitionKind;

int32_t found_or(const IdTable<int32_t>& table, uint32_t id, int32_t otherwise) {
  const int32_t* found = table.find(id);
  return found == nullptr ? otherwise : *found;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t size = utf8_sequence_bytes(text);
    if (size == 0) {
      result += "\xEF\xBF\xBD";
    } else {
      result.append(text.data(), size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return result;
}

int32_t StringTable::index(std::string_view text) {
  const auto [place, is_new] = known_.try_emplace(valid_utf8(text), static_cast<int32_t>(texts_.size()));
  if (is_new) texts_.push_back(place->first);
  return place->second;
}

bool Names::add_block(const uint8_t* payload, uint32_t bytes, StringTable& strings) {
  uint32_t at = 0;
  while (bytes - at >= sizeof(DefinitionEntry)) {
    const auto entry = load<DefinitionEntry>(payload + at);
    at += static_cast<uint32_t>(sizeof entry);
    const uint64_t padded = (uint64_t{entry.text_bytes} + 7) / 8 * 8;
    if (padded > bytes - at) return false;
    const auto* text = reinterpret_cast<const char*>(payload + at);
    at += static_cast<uint32_t>(padded);
    switch (entry.kind) {
      case DefinitionKind::string:
        strings_.set(entry.id, strings.index({text, entry.text_bytes}));
        break;
      case DefinitionKind::domain:
        domains_.set(entry.id, found_or(strings_, entry.a, lost_.name));
        break;
      case DefinitionKind::category:
        categories_.set(entry.id, found_or(strings_, entry.a, lost_.name));
        break;
      case DefinitionKind::label: {
        Label label;
        label.name = found_or(strings_, entry.a, lost_.name);
        label.domain = entry.b == 0 ? -1 : found_or(domains_, entry.b, lost_.name);
        label.category = entry.c == 0 ? -1 : found_or(categories_, entry.c, lost_.name);
        label.colour = entry.d;
        label.source = static_cast<uint8_t>(entry.e);
        labels_.set(entry.id, label);
        break;
      }
      default:
        break;  // a kind of a later version: its id is in no event that this version decodes
    }
  }
  return at == bytes;
}

}  // namespace profkit::captures
