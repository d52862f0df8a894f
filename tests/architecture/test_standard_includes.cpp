// Checks that each file includes the standard headers that it uses. Precompiled headers and joined
// sources hide an include that is missing, from all but `.ci/run --long`.

#include <map>
#include <set>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

// The header of a name in std. Names that other headers must have, too, are missing: move, swap,
// min, max, string_view.
const std::map<std::string, Names> kNamesOfHeader = {
    {"algorithm",
     {"all_of",      "any_of",      "binary_search", "clamp",       "copy_if",     "copy_n",
      "count_if",    "equal_range", "find_if",       "lower_bound", "max_element", "min_element",
      "none_of",     "nth_element", "partial_sort",  "remove_if",   "reverse",     "rotate",
      "stable_sort", "sort",        "transform",     "unique",      "upper_bound"}},
    {"array", {"array"}},
    {"atomic", {"atomic"}},
    {"chrono", {"chrono"}},
    {"cmath",
     {"ceil", "cos", "erf", "exp", "floor", "isfinite", "isinf", "isnan", "log", "log2", "lround",
      "pow", "sin", "sqrt", "tanh"}},
    {"cstring", {"memcmp", "memcpy", "memmove", "memset", "strerror", "strlen"}},
    {"deque", {"deque"}},
    {"filesystem", {"filesystem"}},
    {"functional", {"function"}},
    {"limits", {"numeric_limits"}},
    {"map", {"map", "multimap"}},
    {"memory", {"make_shared", "make_unique", "shared_ptr", "unique_ptr", "weak_ptr"}},
    {"mutex", {"lock_guard", "mutex", "scoped_lock", "unique_lock"}},
    {"optional", {"nullopt", "optional"}},
    {"set", {"multiset", "set"}},
    {"span", {"span"}},
    {"string", {"string", "to_string"}},
    {"unordered_map", {"unordered_map"}},
    {"variant", {"get_if", "holds_alternative", "variant", "visit"}},
    {"vector", {"vector"}},
};

std::map<std::string, std::string> headers_by_name() {
  std::map<std::string, std::string> headers;
  for (const auto& [header, names] : kNamesOfHeader) {
    for (const std::string& name : names) headers[name] = header;
  }
  return headers;
}

// The names behind each "std::" of a text.
Names standard_names(const std::string& text) {
  constexpr std::string_view kStd = "std::";
  Names names;
  for (auto at = text.find(kStd); at != std::string::npos; at = text.find(kStd, at)) {
    at += kStd.size();
    const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at);
    names.insert(text.substr(at, end - at));
  }
  return names;
}

using Sources = std::map<std::string, std::string>;

// Adds the headers in <> that a file includes, itself or by others of this project.
void add_headers(const Sources& sources, const std::string& path, Names& seen, Names& headers) {
  const auto source = sources.find(path);
  if (source == sources.end() || !seen.insert(path).second) return;
  for (const std::string& name : included(source->second, '<', '>')) headers.insert(name);
  for (const std::string& name : included(source->second, '"', '"')) {
    add_headers(sources, source_path(name), seen, headers);
  }
}

}  // namespace

TEST_CASE("files include the standard headers and fmt's whose names they use", "[layers]") {
  const auto header_of = headers_by_name();
  const Sources sources =
      read_sources({"base", "comm", "autograd", "nn", "optim", "data", "arrays", "run", "apps"});
  CHECK(sources.size() > 100);
  for (const auto& [path, text] : sources) {
    Names seen, headers;
    add_headers(sources, path, seen, headers);
    for (const std::string& name : standard_names(text)) {
      const auto header = header_of.find(name);
      if (header == header_of.end() || headers.count(header->second) == 1) continue;
      FAIL_CHECK(path << " uses std::" << name << ", but nobody whom it includes includes <"
                      << header->second << ">");
    }
    if (text.find("fmt::") == std::string::npos) continue;
    if (headers.count("fmt/core.h") + headers.count("fmt/format.h") > 0) continue;
    FAIL_CHECK(path << " uses fmt, but nobody whom it includes includes <fmt/core.h>");
  }
}
