// Definition entries, checked one by one.
#include "captures/read/names.h"

#include "captures/read/blocks.h"

namespace profkit::captures {
namespace {

using tracer::DefinitionEntry;
using tracer::DefinitionKind;

// Bytes of the UTF-8 sequence at the start of the text; 0 when there is none (also for surrogates, overlong
// forms and numbers above U+10FFFF).
size_t sequence_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = byte(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return size;
}

int32_t found_or(const IdTable<int32_t>& table, uint32_t id, int32_t otherwise) {
  const int32_t* found = table.find(id);
  return found == nullptr ? otherwise : *found;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t size = sequence_bytes(text);
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
