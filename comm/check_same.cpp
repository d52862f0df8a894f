#include <algorithm>
#include <cstring>
#include <set>

#include "tapegrad/base/error.h"
#include "tapegrad/comm/processes.h"

namespace tapegrad {
namespace {

using Texts = std::map<std::string, std::string>;

void add(std::string& packed, std::string_view text) {
  const std::uint64_t size = text.size();
  packed.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
}
std::string_view take(std::string_view& packed) {
  std::uint64_t size = 0;
  std::memcpy(&size, packed.data(), sizeof size);
  const std::string_view text = packed.substr(sizeof size, size);
  packed.remove_prefix(sizeof size + size);
  return text;
}

Texts unpacked(std::string_view packed) {
  Texts texts;
  while (!packed.empty()) {
    const std::string_view name = take(packed);
    texts.emplace(name, take(packed));
  }
  return texts;
}

// "rank 0 on a, rank 1 on a"; where many agree, a few names tell enough.
std::string names(const Processes& processes, const std::vector<int>& ranks) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i) {
    text += (i == 0 ? "" : ", ") + processes.name(ranks[i]);
  }
  return ranks.size() <= most ? text : text + fmt::format(" and {} more", ranks.size() - most);
}

}  // namespace

void check_same(Processes& processes, const Texts& texts) {
  if (processes.alone()) return;
  std::string packed;
  for (const auto& [name, text] : texts) {
    add(packed, name);
    add(packed, text);
  }
  std::vector<Texts> all;
  std::set<std::string> things;
  for (const std::string& theirs : processes.all_gather(packed)) {
    all.push_back(unpacked(theirs));
    for (const auto& [name, text] : all.back()) things.insert(name);
  }
  for (const std::string& thing : things) {
    std::map<std::string, std::vector<int>> ranks_of;
    for (int rank = 0; rank < processes.size(); ++rank) {
      const Texts& theirs = all[static_cast<std::size_t>(rank)];
      const auto found = theirs.find(thing);
      ranks_of[found == theirs.end() ? "nothing" : found->second].push_back(rank);
    }
    if (ranks_of.size() == 1) continue;
    std::string who;
    for (const auto& [text, ranks] : ranks_of) {
      who += fmt::format("{}{} in {}", who.empty() ? "" : "; ", text, names(processes, ranks));
    }
    fail("[processes] {} must be the same in all processes, and is not: {}", thing, who);
  }
}

}  // namespace tapegrad
