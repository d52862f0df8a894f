// inspect --tape.

#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

Result draw(const std::filesystem::path& run, const std::string& file, const Args& more = {}) {
  return run_program("inspect",
                     Args{"--model", run, "--text", "the cat sat", "--tape", file} + more);
}

const TinyRun& tiny() {
  static const TinyRun run(2);
  return run;
}

}  // namespace

TEST_CASE("inspect --tape draws the ops of a step in the boxes of their modules", "[inspect]") {
  const TempFolder folder;
  check_ended_well(draw(tiny().run, folder / "tape.dot"));
  const std::string dot = TempFolder::get(folder / "tape.dot");
  CHECK_THAT(dot, ContainsSubstring("subgraph \"cluster h.1.attn\""));
  CHECK_THAT(dot, ContainsSubstring("c_fc: linear\\nweight (64, 16) f32\\n→ (1, 10, 64) f32"));
  CHECK_THAT(dot, ContainsSubstring("on 10 tokens"));
  CHECK_THAT(dot, ContainsSubstring("linear_cross_entropy"));
  CHECK_THAT(dot, ContainsSubstring("keeps "));
  CHECK_THAT(dot, ContainsSubstring("dropout"));  // as training has it
}

TEST_CASE("inspect --tape draws SVG where Graphviz is installed, and says so where not",
          "[inspect]") {
  const TempFolder folder;
  const Result r = draw(tiny().run, folder / "tape.svg");
  if (r.code == 0) {
    const std::string svg = TempFolder::get(folder / "tape.svg");
    CHECK_THAT(svg, ContainsSubstring("<svg") && ContainsSubstring("c_fc: linear"));
  } else {
    check_error_of("inspect", r, 1, "apt install graphviz");
  }
}

TEST_CASE("inspect --tape refuses what it cannot draw", "[inspect]") {
  const TempFolder folder;
  check_error_of("inspect", draw(tiny().run, folder / "tape.png"), 2, "must end with .svg or .dot");
  check_error_of("inspect", draw(tiny().run, folder / "tape.dot", {"--json"}), 2,
                 "--tape goes without --json and --html");
  check_error_of(
      "inspect",
      run_program("inspect", {"--model", tiny().run, "--text", "t", "--tape", folder / "tape.dot"}),
      1, "has one token");
  CHECK_FALSE(std::filesystem::exists(folder / "tape.dot"));
}
