// The layers of the architecture, read from the includes.

#include <regex>
#include <set>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

using Names = std::set<std::string>;

struct Include {
  std::string from, to;

  std::string folder() const {
    return to.find('/') == std::string::npos ? "" : to.substr(0, to.find('/'));
  }
};

// The files of this tree that each file in `folders` includes.
std::vector<Include> includes_in(const std::vector<std::string>& folders) {
  static const std::regex line(R"re(#include\s+"([^"]+)")re");
  std::vector<Include> includes;
  for (const auto& [path, text] : read_sources(folders)) {
    for (auto m = std::sregex_iterator(text.begin(), text.end(), line); m != std::sregex_iterator();
         ++m) {
      includes.push_back({path, m->str(1)});
    }
  }
  return includes;
}

// The files outside tests/ whose text matches.
Names files_with(const std::string& pattern) {
  const std::regex regex(pattern);
  Names files;
  for (const auto& [path, text] : read_sources({"autograd", "nn", "optim", "data", "apps"})) {
    if (std::regex_search(text, regex)) files.insert(path);
  }
  return files;
}

}  // namespace

TEST_CASE("each folder includes only the layers below it", "[layers]") {
  const std::map<std::string, Names> allowed = {
      {"autograd", {"autograd"}},
      {"nn", {"autograd", "nn"}},
      {"optim", {"autograd", "optim"}},
      {"data", {"autograd", "data"}},
      {"apps", {"autograd", "nn", "optim", "data", "apps"}},
      {"tests", {"autograd", "nn", "optim", "data", "apps", "tests"}},
  };
  for (const auto& [folder, below] : allowed) {
    const auto includes = includes_in({folder});
    if (folder != "apps") CHECK_FALSE(includes.empty());
    for (const Include& include : includes) {
      INFO(include.from << " includes " << include.to);
      CHECK(below.count(include.folder()) == 1);  // from the root, and no higher layer
    }
  }
}

TEST_CASE("data knows no tensors", "[layers]") {
  const Names allowed = {"autograd/check.h", "autograd/file.h", "autograd/random.h"};
  for (const Include& include : includes_in({"data"})) {
    INFO(include.from << " includes " << include.to);
    if (include.folder() == "autograd") CHECK(allowed.count(include.to) == 1);
  }
}

TEST_CASE("a Tensor knows nothing of the tape or of ops", "[layers]") {
  for (const Include& include : includes_in({"autograd"})) {
    if (include.from.rfind("autograd/tensor.", 0) != 0) continue;
    INFO(include.from << " includes " << include.to);
    CHECK(include.to != "autograd/tape.h");
    CHECK(include.to != "autograd/ops.h");
  }
}

TEST_CASE("threads and BLAS are each reached in one place", "[layers]") {
  CHECK(files_with(R"(#\s*pragma\s+omp|#include\s*<omp\.h>|\bomp_\w+\()").empty());
  CHECK(files_with(R"(std::(thread|jthread|async)\b)") == Names{"autograd/parallel.cpp"});
  CHECK(files_with(R"(cblas|openblas_\w+\()") == Names{"autograd/blas.cpp"});
}
