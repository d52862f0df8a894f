// The version stands in base/version.h. What cannot read it there says the same.

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tapegrad/base/version.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

using namespace tapegrad;

namespace {

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(places::kSources) + "/" + path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("recipes and documents have the version of base/version.h", "[architecture]") {
  CHECK(nlohmann::json::parse(read("scripts/vcpkg/vcpkg.json")).at("version") == TAPEGRAD_VERSION);

  const std::string building = read("docs/building.md");
  const std::regex package_file("tapegrad[0-9.]*[_-]([0-9]+[.][0-9]+[.][0-9]+)[_-]");
  int named = 0;
  for (std::sregex_iterator i(building.begin(), building.end(), package_file), end; i != end; ++i) {
    CHECK((*i)[1] == TAPEGRAD_VERSION);
    ++named;
  }
  CHECK(named >= 3);
}
