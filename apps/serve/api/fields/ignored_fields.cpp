#include "tapegrad/apps/serve/api/fields/ignored_fields.h"

#include <algorithm>

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostIgnored = 16, kMostNameBytes = 64;

// A comma would look like the end of a name, and what is no ASCII may control a terminal.
std::string safe_name(std::string_view name) {
  std::string made(name.substr(0, kMostNameBytes));
  std::replace_if(
      made.begin(), made.end(), [](char c) { return c <= ' ' || c > '~' || c == ','; }, '?');
  return name.size() > kMostNameBytes ? made + "..." : made;
}

// "messages[12].content[0]" → "messages[].content[]"
std::string without_numbers(std::string_view place) {
  std::string made;
  bool inside = false;
  for (const char c : place) {
    inside = inside && c != ']';
    if (!inside) made += c;
    inside = inside || c == '[';
  }
  return made;
}

}  // namespace

void IgnoredFields::add(std::string_view place, std::string_view field) {
  if (more_) return;
  const std::string name = safe_name(field), dot = place.empty() ? "" : ".";
  std::string general = without_numbers(place) + dot + name;
  if (std::find(names_.begin(), names_.end(), general) != names_.end()) return;
  if (names_.size() == kMostIgnored) {
    more_ = true;
    return;
  }
  names_.push_back(std::move(general));
  places_.push_back(std::string(place) + dot + name);
}

std::string IgnoredFields::header() const {
  std::string text;
  for (const std::string& place : places_) text += (text.empty() ? "" : ", ") + place;
  return more_ ? text + ", ..." : text;
}

}  // namespace tapegrad::serve
