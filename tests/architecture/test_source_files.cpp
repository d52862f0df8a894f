// Where sources lie, and how they begin.

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

// So each header with a source is compiled by itself, where headers are not precompiled.
TEST_CASE("a source includes its own header first", "[layers]") {
  const auto sources = read_sources(kLibraryAndPrograms);
  int checked = 0;
  for (const auto& [path, text] : sources) {
    if (!path.ends_with(".cpp")) continue;
    std::string header = path.substr(0, path.size() - 3) + "h";
    if (sources.count(header) == 0) header.insert(header.rfind('/'), "/internal");
    if (sources.count(header) == 0) continue;
    ++checked;
    INFO(path);
    const auto first = text.find("#include");
    CHECK(text.compare(first, header.size() + 20, "#include \"tapegrad/" + header + "\"") == 0);
  }
  CHECK(checked > 100);
}

// A folder that one can see at a glance. That of ops has one for each family.
TEST_CASE("no folder but that of ops has more than 25 sources", "[layers]") {
  auto folders = kLibraryAndPrograms;
  folders.push_back("tests");
  std::map<std::string, int> sources;
  for (const auto& [path, text] : read_sources(folders)) {
    ++sources[path.substr(0, path.rfind('/'))];
  }
  for (const auto& [folder, count] : sources) {
    if (count <= 25 || folder == "autograd/ops") continue;
    FAIL_CHECK(folder << " has " << count
                      << ": put what belongs together into a folder of its own");
  }
}

TEST_CASE("no two source files share a name", "[layers]") {
  auto folders = kLibraryAndPrograms;
  folders.push_back("tests");
  std::map<std::string, Names> folders_of_stem;
  for (const auto& [path, text] : read_sources(folders)) {
    const std::string name = path.substr(path.rfind('/') + 1);
    folders_of_stem[name.substr(0, name.find('.'))].insert(folder_of(path));
  }
  for (const auto& [stem, places] : folders_of_stem) {
    if (places.size() == 1) continue;  // a header beside its source
    FAIL_CHECK("files called " << stem << " are in " << listed(places)
                               << ": a name belongs to one folder");
  }
}
