// inspect --tape.

#include "tapegrad/apps/inspect/tape_picture.h"
#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

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

TEST_CASE("inspect --tape draws the last tokens of a long text", "[inspect]") {
  const TempFolder folder;
  const std::string text = "the cat sat on mat 7 and the dog ate.";
  const auto drawn_of = [&](const std::string& of) {
    const auto file = folder / "tape.dot";
    check_ended_well(run_program("inspect", {"--model", tiny().run, "--text", of, "--tape", file}));
    return TempFolder::get(file);
  };
  const std::string dot = drawn_of(text);
  CHECK_THAT(dot, ContainsSubstring("on 15 tokens, the last of 37: "));  // the block size is 16
  const auto loss_of = [](const std::string& drawn) {
    return drawn.substr(drawn.find("loss "), 11);
  };
  CHECK(loss_of(dot) == loss_of(drawn_of(text.substr(text.size() - 16))));
}

TEST_CASE("parameters may have names of any form in a picture", "[inspect]") {
  for (const std::string name : {"w", ".w", "", ".", "0", "a..w"}) {
    INFO("'" << name << "'");
    const Tensor w = Tensor::ones({2, 2}).set_requires_grad();
    const NamedTensors names = {{name, w}};
    Tape tape;
    const Tensor y = exp(w);
    CHECK_THAT(inspect::dot_of(graph_of(tape, names), "t"),
               ContainsSubstring("exp\\n") && ContainsSubstring("(2, 2) f32"));
  }
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

TEST_CASE("inspect --tape goes together with --html and --json", "[inspect]") {
  const TempFolder folder;
  const Result html = draw(tiny().run, folder / "a.dot", {"--html", folder / "a.html"});
  check_ended_well(html);
  CHECK_THAT(html.out, ContainsSubstring("a.dot shows ") && ContainsSubstring("a.html shows "));
  CHECK_THAT(TempFolder::get(folder / "a.html"), ContainsSubstring("<html"));
  const Result json = draw(tiny().run, folder / "b.dot", {"--json"});
  check_ended_well(json);
  CHECK(json.out.starts_with("{\"model\""));
  CHECK_THAT(TempFolder::get(folder / "b.dot"), ContainsSubstring("digraph"));
}

TEST_CASE("inspect --tape refuses what it cannot draw", "[inspect]") {
  const TempFolder folder;
  check_error_of("inspect", draw(tiny().run, folder / "tape.png"), 2, "must end with .svg or .dot");
  check_error_of(
      "inspect",
      run_program("inspect", {"--model", tiny().run, "--text", "t", "--tape", folder / "tape.dot"}),
      1, "has one token");
  CHECK_FALSE(std::filesystem::exists(folder / "tape.dot"));
}
