// What users are given: which headers are theirs, and what these include.

#include <algorithm>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

// The public headers as users include them, such as "tapegrad/nn/decoder.h".
Names public_headers() {
  std::ifstream file(tapegrad::places::kPublicHeaders);
  Names headers;
  for (std::string line; std::getline(file, line);) headers.insert(line);
  return headers;
}

bool is_internal(const std::string& path) { return path.find("/internal/") != std::string::npos; }

}  // namespace

TEST_CASE("a header of the libraries is public, or lies in a folder called internal", "[layers]") {
  const Names headers = public_headers();
  const std::vector<std::string> libraries(
      kLibraryAndPrograms.begin(),
      std::find(kLibraryAndPrograms.begin(), kLibraryAndPrograms.end(), "apps"));
  int internal = 0;
  for (const auto& [path, text] : read_sources(libraries)) {
    if (!path.ends_with(".h")) continue;
    internal += is_internal(path) ? 1 : 0;
    if (is_internal(path) != (headers.count("tapegrad/" + path) == 1)) continue;
    FAIL_CHECK(path << (is_internal(path) ? " is internal, and HEADERS has it"
                                          : " is no public header of HEADERS: it belongs into "
                                            "internal/"));
  }
  CHECK(internal > 100);
}

TEST_CASE(
    "public headers and the tutorial include public headers, the standard library and fmt alone",
    "[layers]") {
  Names headers = public_headers();
  CHECK(headers.size() > 30);
  const auto sources = read_sources(kLibraryAndPrograms);
  Names files;
  for (const std::string& header : headers) files.insert(source_path(header));
  for (const auto& [path, text] : sources) {
    if (folder_of(path) != kTutorial) continue;
    files.insert(path);
    if (path.ends_with(".h")) headers.insert("tapegrad/" + path);  // of the folder, as sources are
  }
  headers.insert("tapegrad/tapegrad.h");
  for (const std::string& path : files) {
    const auto source = sources.find(path);
    if (source == sources.end()) {
      FAIL_CHECK(path << " is listed as a public header, but does not exist");
      continue;
    }
    for (const std::string& name : included(source->second, '"', '"')) {
      if (headers.count(name) == 1) continue;
      FAIL_CHECK(path << " is for users and includes " << name << ", which is not installed");
    }
    for (const std::string& name : included(source->second, '<', '>')) {
      const bool standard = name.find_first_of("/.") == std::string::npos;
      const bool optional = path == "autograd/tensor/eigen.h" && name.starts_with("Eigen/");
      if (standard || optional || name.starts_with("fmt/")) continue;
      FAIL_CHECK(path << " is for users and includes <" << name
                      << ">: users would need that library's headers, too");
    }
  }
}

// The first include of a header leads to one of its own kind, and in the end to cxx20.h. So a
// program in C++17 is told so, whichever header it includes, before anything else fails.
TEST_CASE("each public header asks for C++20 first", "[layers]") {
  const auto sources = read_sources(kLibraryAndPrograms);
  for (const std::string& header : public_headers()) {
    const auto source = sources.find(source_path(header));
    if (source == sources.end() || header == "tapegrad/base/cxx20.h") continue;
    INFO(header << " includes no header of tapegrad: if it needs none, base/cxx20.h");
    CHECK(!included(source->second, '"', '"').empty());
  }
}
