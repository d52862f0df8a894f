// At its end, every test process looks at the ops that it has run. It fails if one of them has no
// cases in the op table. Ops that tests define have names that begin with "test.".

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/autograd/internal/step.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

class OpGate : public CatchListener {
 public:
  using CatchListener::CatchListener;

  void testRunEnded(const Catch::TestRunStats&) override {
    const std::vector<std::string> ran = ops_that_ran();
    if (ran.empty()) return;
    const std::vector<std::string> missing = missing_cases(ran, op_coverage());
    if (missing.empty()) return;
    for (const std::string& line : missing) std::fprintf(stderr, "%s\n", line.c_str());
    // Catch2 has no way for a listener to fail a run.
    std::atexit([] {
      std::fflush(nullptr);
      std::_Exit(EXIT_FAILURE);
    });
  }
};

CATCH_REGISTER_LISTENER(OpGate)

constexpr const char* kPlant = "TAPEGRAD_PLANT_AN_OP";

struct Run {
  std::string output;
  int status = -1;
};

Run run(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Run result;
  std::array<char, 256> piece{};
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) result.output += piece.data();
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

}  // namespace

TEST_CASE("a test process fails if it runs an op without a case, and names it", "[op_gate]") {
  if (const char* name = std::getenv(kPlant)) {  // this is the process that is to fail
    apply_many(name, {}, [](Inputs, Saved&) { return std::vector<Tensor>(); }, {});
    return;
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string tests = "'" + self + "' '[op_gate]'";
  const Run caught = run(std::string(kPlant) + "=planted " + tests);
  CHECK(caught.status == EXIT_FAILURE);
  CHECK_THAT(caught.output, ContainsSubstring("op planted: the op table needs a line"));
  CHECK(run(std::string(kPlant) + "=test.planted " + tests).status == 0);
  CHECK(run(std::string(kPlant) + "=exp " + tests).status == 0);
}

TEST_CASE("an op needs a case at ordinary shapes and one at the edge", "[op_gate_rules]") {
  const auto missing = [](const OpCoverage& coverage) {
    return missing_cases({"known"}, {{"known", coverage}}).size();
  };
  CHECK(missing({}) == 2);
  CHECK(missing({.ordinary = true}) == 1);
  CHECK(missing({.edge = true}) == 1);
  CHECK(missing({.ordinary = true, .edge = true}) == 0);
}
