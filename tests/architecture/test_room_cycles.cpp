// No rooms need each other in a circle. A folder and its sub-folders count as one room if they need
// each other: if includes lead from the one to the other and back, among its sub-folders alone.

#include <algorithm>
#include <deque>
#include <set>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

// "run/record/report.h includes run/folder/run_folder.h", one for each pair of places.
using Needs = std::map<std::string, std::map<std::string, std::string>>;

Needs needs_of_folders(const std::map<std::string, std::string>& sources) {
  Needs needs;
  for (const auto& [path, text] : sources) {
    for (const std::string& name : included(text, '"', '"')) {
      const std::string other = source_path(name);
      if (folder_of(other) == folder_of(path)) continue;
      needs[folder_of(path)].emplace(folder_of(other), path + " includes " + other);
    }
  }
  return needs;
}

// A shortest way of includes from a place to another one, among the places that begin with
// `within`. Empty if there is none.
std::vector<std::string> way(const Needs& needs, const std::string& from, const std::string& to,
                             const std::string& within = "") {
  std::map<std::string, std::vector<std::string>> ways = {{from, {}}};
  for (std::deque<std::string> next = {from}; !next.empty(); next.pop_front()) {
    const auto needed = needs.find(next.front());
    if (needed == needs.end()) continue;
    for (const auto& [place, include] : needed->second) {
      std::vector<std::string> longer = ways[next.front()];
      longer.push_back(include);
      if (place == to) return longer;
      if (!place.starts_with(within) || !ways.emplace(place, longer).second) continue;
      next.push_back(place);
    }
  }
  return {};
}

// The folder, or the uppermost one above it with which it is one room.
std::string room_of(const Needs& needs, const std::string& folder) {
  for (auto slash = folder.find('/'); slash != std::string::npos;
       slash = folder.find('/', slash + 1)) {
    const std::string upper = folder.substr(0, slash), within = upper + "/";
    if (way(needs, upper, folder, within).empty()) continue;
    if (!way(needs, folder, upper, within).empty()) return upper;
  }
  return folder;
}

// The includes that lead from a room back to it by the shortest circle; empty if there is none.
std::vector<std::string> cycle_of_rooms(const std::map<std::string, std::string>& sources) {
  const Needs folders = needs_of_folders(sources);
  Needs rooms;
  for (const auto& [folder, needed] : folders) {
    const std::string room = room_of(folders, folder);
    for (const auto& [other, include] : needed) {
      const std::string other_room = room_of(folders, other);
      if (other_room != room) rooms[room].emplace(other_room, include);
    }
  }
  std::vector<std::string> shortest;
  for (const auto& [room, needed] : rooms) {
    const std::vector<std::string> cycle = way(rooms, room, room);
    if (cycle.empty() || (!shortest.empty() && cycle.size() >= shortest.size())) continue;
    shortest = cycle;
  }
  return shortest;
}

std::string includes(const std::string& path) { return "#include \"tapegrad/" + path + "\"\n"; }

}  // namespace

TEST_CASE("no rooms include each other in a circle", "[layers]") {
  const auto sources = read_sources(kLibraryAndPrograms);
  CHECK(sources.size() > 100);
  std::string cycle;
  for (const std::string& include : cycle_of_rooms(sources)) cycle += "\n  " + include;
  if (!cycle.empty()) FAIL_CHECK("these rooms need each other in a circle:" << cycle);
}

TEST_CASE("a circle of rooms is found, and a folder with its sub-folders is none", "[layers]") {
  const std::map<std::string, std::string> room = {{"a/x.h", includes("a/b/x.h")},
                                                   {"a/b/x.h", includes("a/c/x.h")},
                                                   {"a/c/x.h", includes("a/y.h")},
                                                   {"d/x.h", includes("a/x.h")}};
  CHECK(cycle_of_rooms(room).empty());
  // Without the folder itself, its sub-folders are rooms of their own.
  CHECK(cycle_of_rooms({{"a/b/x.h", includes("a/c/x.h")}, {"a/c/x.h", includes("a/b/y.h")}}) ==
        std::vector<std::string>{"a/b/x.h includes a/c/x.h", "a/c/x.h includes a/b/y.h"});
  auto circle = room;
  circle["a/b/y.h"] = includes("d/y.h");
  CHECK(cycle_of_rooms(circle) ==
        std::vector<std::string>{"a/b/y.h includes d/y.h", "d/x.h includes a/x.h"});
  // A way back from a sub-folder through another room does not make it a part of its folder's.
  CHECK(cycle_of_rooms({{"a/x.h", includes("a/b/x.h")},
                        {"a/b/x.h", includes("d/x.h")},
                        {"d/x.h", includes("a/y.h")}})
            .size() == 3);
}
