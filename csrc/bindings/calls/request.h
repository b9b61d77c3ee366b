// One request of the parent as it comes: a line of JSON, whose flat fields are found by name.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace profkit {

class RequestLine {
 public:
  explicit RequestLine(std::string line) : line_(std::move(line)) {}

  const std::string& line() const { return line_; }
  bool has(const char* name) const { return find(name) != nullptr; }
  int64_t number(const char* name, int64_t otherwise = 0) const {
    const char* text = find(name);
    return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
  }
  std::vector<uint64_t> numbers(const char* name) const {
    std::vector<uint64_t> all;
    const char* text = find(name);
    if (text == nullptr || *text != '[') return all;
    while (*text != ']' && *text != '\0') {
      char* end = nullptr;
      ++text;  // the bracket, a comma
      const uint64_t one = std::strtoull(text, &end, 10);
      if (end == text) break;
      all.push_back(one);
      text = end;
    }
    return all;
  }
  std::string word(const char* name) const {
    const char* text = find(name);
    if (text == nullptr || *text != '"') return "";
    const std::string rest(text + 1);
    return rest.substr(0, rest.find('"'));
  }
  // Text that was written as hexadecimal digits, whatever it holds.
  std::string text(const char* name) const {
    const std::string digits = word(name);
    std::string all;
    for (size_t i = 0; i + 1 < digits.size(); i += 2) {
      all += static_cast<char>(std::strtol(digits.substr(i, 2).c_str(), nullptr, 16));
    }
    return all;
  }
  // Takes the word away: no reader of the line sees it.
  std::string take_word(const char* name) {
    const std::string found = word(name);
    if (!found.empty()) {
      const size_t at = static_cast<size_t>(find(name) - line_.c_str()) + 1;
      for (size_t i = 0; i < found.size(); ++i) line_[at + i] = '0';
    }
    return found;
  }

 private:
  // What follows `"name": `.
  const char* find(const char* name) const {
    const std::string wanted = std::string("\"") + name + "\": ";
    const size_t at = line_.find(wanted);
    return at == std::string::npos ? nullptr : line_.c_str() + at + wanted.size();
  }

  std::string line_;
};

}  // namespace profkit
