#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad::testing;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The numbers beside "layers.N.0.weight", in the order in which they are printed.
std::vector<double> printed_gradients(const std::string& out) {
  std::vector<double> values;
  for (const std::string& line : lines_of(out)) {
    std::istringstream words(line);
    std::string name;
    double value = 0;
    if (words >> name >> value && name.rfind("layers.", 0) == 0) values.push_back(value);
  }
  return values;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

long count(const std::string& text, const std::string& part) {
  long n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Every opened element is closed, and nothing comes after the last.
bool is_balanced(const std::string& svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = svg.substr(at + 1, end - at - 1);
    if (tag.back() == '/') continue;
    if (tag.front() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    } else {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

// Seed 7 is left to the tests of the network itself: there, f32's rounding shows.
TEST_CASE("gradient-demo prints PyTorch's gradients, without and with shortcuts",
          "[gradient-demo]") {
  std::map<std::string, std::vector<double>> expected;
  const auto json = golden_json("residual.json");
  for (const auto& facts : json.at("runs")) {
    if (facts.at("seed") != 123) continue;
    auto& list = expected[facts.at("activation").get<std::string>()];
    for (const double value : facts.at("mean_abs_grad")) list.push_back(value);
  }
  CHECK(expected.size() == 3);
  for (const auto& [activation, values] : expected) {
    INFO(activation);
    const Result result = run_program("gradient-demo", {"--activation", activation});
    CHECK(result.code == 0);
    CHECK(result.err.empty());
    const std::vector<double> printed = printed_gradients(result.out);
    REQUIRE(printed.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(std::abs(printed[i] - values[i]) <= 1e-6 * values[i]);
    }
  }
  const Result other = run_program("gradient-demo", {"--seed", "7"});
  CHECK(printed_gradients(other.out).front() != Approx(expected.at("gelu").front()));
}

TEST_CASE("gradient-demo runs the tutorials' experiment and says what one sees",
          "[gradient-demo]") {
  const Result result = run_program("gradient-demo", {});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, ContainsSubstring("seed 123") && ContainsSubstring("0.0002017358") &&
                             ContainsSubstring("1.325854") && ContainsSubstring("█") &&
                             ContainsSubstring("logarithmic scale, 1e-4 to 1e1") &&
                             ContainsSubstring("Without shortcuts, the gradient shrinks 25-fold") &&
                             ContainsSubstring("With shortcuts, the gradient shrinks 5.98-fold"));
}

TEST_CASE("gradient-demo draws longer bars for larger gradients", "[gradient-demo]") {
  const Result result = run_program("gradient-demo", {});
  std::vector<long> full_columns;
  for (const std::string& line : lines_of(result.out)) {
    if (contains(line, "layers.")) full_columns.push_back(count(line, "█"));
  }
  REQUIRE(full_columns.size() == 10);
  CHECK(full_columns[0] < full_columns[3]);
  CHECK(full_columns[4] < full_columns[5]);
  CHECK(full_columns[9] == *std::max_element(full_columns.begin(), full_columns.end()));
}

TEST_CASE("gradient-demo takes other depths and widths", "[gradient-demo]") {
  const Result deep = run_program("gradient-demo", {"--layers", "12", "--width", "8"});
  CHECK(deep.code == 0);
  const std::vector<double> gradients = printed_gradients(deep.out);
  REQUIRE(gradients.size() == 24);
  CHECK(gradients[0] < 1e-3 * gradients[11]);
  CHECK(gradients[12] > 1e-3 * gradients[23]);

  const Result one = run_program("gradient-demo", {"--layers", "1"});
  CHECK(printed_gradients(one.out).size() == 2);
  CHECK_THAT(one.out, ContainsSubstring("nothing that a shortcut could go around"));

  // Without shortcuts nothing reaches the first layers, and with them the last activation is flat.
  const Result flat =
      run_program("gradient-demo", {"--layers", "100", "--width", "8", "--seed", "5"});
  CHECK(flat.code == 0);
  CHECK_THAT(flat.out, ContainsSubstring("no gradient reaches the first layer") &&
                           ContainsSubstring("no gradient enters"));
}

TEST_CASE("gradient-demo refuses what it cannot show", "[gradient-demo]") {
  const auto refuses = [](const std::vector<std::string>& args, const std::string& text) {
    const Result result = run_program("gradient-demo", args);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ContainsSubstring(text));
  };
  refuses({"--layers", "0"}, "--layers: must be at least 1");
  refuses({"--layers", "101"}, "--layers: must be at most 100");
  refuses({"--width", "-3"}, "--width: must be at least 1");
  refuses({"--width", "9223372036854775807"}, "more than 10000000 weights");
  refuses({"--layers", "100", "--width", "400"}, "more than 10000000 weights");
  refuses({"--activation", "swish"}, "gelu, gelu-erf, relu");
  refuses({"--svg="}, "--svg");
}

TEST_CASE("gradient-demo draws a picture that stands alone", "[gradient-demo]") {
  const TempFolder folder;
  const std::string path = folder.put("demo.svg", "old").string();
  const Result result = run_program("gradient-demo", {"--svg", path, "--layers", "7"});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, ContainsSubstring(path));
  CHECK(folder.entries() == 1);
  const std::string svg = TempFolder::get(path);
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(is_balanced(svg));
  CHECK(count(svg, "shortcuts, ") == 14);  // the tooltip of each bar
  CHECK_FALSE(contains(svg, "href"));
  CHECK_FALSE(contains(svg, "nan"));
  CHECK_THAT(svg, ContainsSubstring("mean |gradient|") && ContainsSubstring("log scale") &&
                      ContainsSubstring("layer") && ContainsSubstring(".paper { fill: #ffffff; }"));
}

TEST_CASE("gradient-demo says which file it cannot write", "[gradient-demo]") {
  const TempFolder folder;
  const Result result =
      run_program("gradient-demo", {"--svg", (folder / "no/such/folder.svg").string()});
  CHECK(result.code == 1);
  CHECK_THAT(result.err, ContainsSubstring("no/such/folder.svg"));
}

TEST_CASE("gradient-check finds every gradient right", "[gradient-check]") {
  const Result result = run_program("gradient-check", {});
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  CHECK_FALSE(contains(result.out, "WRONG"));
  CHECK_THAT(result.out, ContainsSubstring("matmul") && ContainsSubstring("2nd order") &&
                             ContainsSubstring("attention_qkv") &&
                             ContainsSubstring("h.1.mlp.c_proj.weight") &&
                             ContainsSubstring("gradients checked, all right"));
  CHECK(count(result.out, "  ok\n") > 150);
}

// Differences have errors of about 1e-12 themselves.
TEST_CASE("gradient-check fails, and shows where, if a gradient is off by more than allowed",
          "[gradient-check]") {
  const Result result = run_program("gradient-check", {"--tolerance", "1e-16"});
  CHECK(result.code == 1);
  CHECK(count(result.out, "  WRONG\n") > 0);
  CHECK(count(result.out, ": WRONG; most at element ") >= count(result.out, "  WRONG\n"));
  CHECK_FALSE(contains(result.out, "all right"));
}

TEST_CASE("gradient-check checks what the filter names, and lists every input on request",
          "[gradient-check]") {
  const Result brief = run_program("gradient-check", {"--filter", "layer_norm"});
  CHECK(brief.code == 0);
  CHECK_FALSE(contains(brief.out, "matmul"));
  CHECK_FALSE(contains(brief.out, "analytic"));
  CHECK(count(brief.out, "  layer_norm") > 3);
  const Result full = run_program("gradient-check", {"--filter", "layer_norm", "--verbose"});
  CHECK(count(full.out, "analytic") > 10);
  CHECK_THAT(full.out, ContainsSubstring("[layer_norm] input 2"));

  const Result none = run_program("gradient-check", {"--filter", "no_such_op"});
  CHECK(none.code == 2);
  CHECK_THAT(none.err, ContainsSubstring("no_such_op"));
}

TEST_CASE("gradient-check draws other inputs from another seed", "[gradient-check]") {
  const auto run = [](const char* seed) {
    return run_program("gradient-check", {"--filter", "gelu", "--verbose", "--seed", seed}).out;
  };
  CHECK(run("1") == run("1"));
  CHECK(run("1") != run("2"));
}

TEST_CASE("gradient-check checks a model that train-gpt made", "[gradient-check]") {
  const TempFolder folder;
  const std::string out = (folder / "run").string();
  const Result trained =
      run_program("train-gpt", tiny_run(folder.put("corpus.txt", tiny_text()), out, 5));
  INFO(trained.err);
  REQUIRE(trained.code == 0);

  const Result result = run_program("gradient-check", {"--model", out});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, ContainsSubstring("GPT of " + out) &&
                             ContainsSubstring("h.0.attn.c_attn.weight") &&
                             ContainsSubstring("all right"));
  CHECK_FALSE(contains(result.out, "matmul(a"));

  const std::string model = TempFolder::get(folder / "run/model.safetensors");
  folder.put("run/model.safetensors", model.substr(0, model.size() - 8));
  const Result broken = run_program("gradient-check", {"--model", out});
  CHECK(broken.code == 1);
  CHECK_THAT(broken.err, ContainsSubstring("model.safetensors"));
}

TEST_CASE("gradient-check needs a tolerance", "[gradient-check]") {
  const Result r = run_program("gradient-check", {"--tolerance", "0"});
  CHECK(r.code == 2);
  CHECK_THAT(r.err, ContainsSubstring("--tolerance must be above 0"));
}

TEST_CASE("gradient-check says which model it cannot find", "[gradient-check]") {
  const Result result = run_program("gradient-check", {"--model", "/no/such/folder"});
  CHECK(result.code == 1);
  CHECK_THAT(result.err, ContainsSubstring("/no/such/folder"));
}

TEST_CASE("the gradient programs explain themselves, with examples", "[gradient-check]") {
  for (const std::string program : {"gradient-demo", "gradient-check"}) {
    const Result result = run_program(program, {"--help"});
    CHECK(result.code == 0);
    CHECK_THAT(result.out, ContainsSubstring("--seed") && ContainsSubstring("Examples:"));
    const Result wrong = run_program(program, {"--sed", "3"});
    CHECK(wrong.code == 2);
    CHECK_THAT(wrong.err, ContainsSubstring("did you mean --seed"));
  }
}
