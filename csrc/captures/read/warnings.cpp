// Counts into sentences; each names its number.
#include "captures/read/warnings.h"

namespace profkit::captures {
namespace {

constexpr size_t kMostPlaces = 5;

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string counted(uint64_t number, const std::string& noun) {
  const char* ending = number == 1 ? "" : noun.back() == 's' ? "es" : "s";
  return grouped(number) + " " + noun + ending;
}

void add_damage(const BlockList& found, std::vector<std::string>& warnings) {
  const std::vector<Damage>& damage = found.damage;
  for (size_t i = 0; i < damage.size() && i < kMostPlaces; ++i) {
    const bool is_cut = found.is_cut && i + 1 == damage.size();
    const std::string place =
        is_cut ? "the file ends within a block or in damage, from byte " + std::to_string(damage[i].begin)
               : "damaged between byte " + std::to_string(damage[i].begin) + " and " +
                     std::to_string(damage[i].end);
    warnings.push_back(place + ": " + counted(damage[i].end - damage[i].begin, "byte") + " skipped");
  }
  if (damage.size() > kMostPlaces) {
    uint64_t bytes = 0;
    for (size_t i = kMostPlaces; i < damage.size(); ++i) bytes += damage[i].end - damage[i].begin;
    warnings.push_back("damaged at " + counted(damage.size() - kMostPlaces, "further place") + ": " +
                       counted(bytes, "byte") + " skipped");
  }
  if (found.gave_up) {
    warnings.emplace_back(
        "the rest of the file is too damaged to be searched; everything before it was read");
  }
}

}  // namespace

std::vector<std::string> warnings_of(const BlockList& found, const WarningFacts& facts) {
  std::vector<std::string> warnings;
  const auto add = [&](uint64_t number, const std::string& noun, const std::string& rest) {
    if (number != 0) warnings.push_back(counted(number, noun) + " " + rest);
  };
  add_damage(found, warnings);
  const Anomalies& anomalies = facts.anomalies;
  if (anomalies.gaps != 0) {
    warnings.push_back("events are missing at " + counted(anomalies.gaps, "place") + " (" +
                       counted(8 * anomalies.lost_words, "byte") + "): ranges open there end there");
  }
  add(anomalies.skipped_events, "begin or end event",
      "left out: after such a place it is not known what was open");
  add(anomalies.unmatched_ends, "end event", "left out: no such range was open");
  add(anomalies.unmatched_span_ends, "span end", "left out: no begin was recorded");
  add(anomalies.broken_blocks + facts.malformed_blocks, "block",
      "with content that this format does not allow: read as far as possible");
  const std::string full = "left out: a table holds at most " + grouped(facts.max_rows) + " rows";
  add(anomalies.too_many_rows, "range", full);
  add(anomalies.too_many_allocations, "allocation", full);
  add(facts.unknown_blocks, "block",
      "skipped: of a kind that this version does not know; a newer profkit reads more");
  add(facts.processes_without_clock, "process",
      "without a clock: the times are those of another process, or ticks");
  add(anomalies.lost_labels, "range", "without a name: the block that defines it is missing");
  return warnings;
}

}  // namespace profkit::captures
