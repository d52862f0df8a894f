// The pages of docs/tutorial, in both languages, against the programs that they are about.

#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"

namespace fs = std::filesystem;
using namespace tapegrad;

namespace {

const fs::path root = TAPEGRAD_SOURCE_DIR;
const std::vector<std::string> languages = {"en", "zh"};

std::string replaced(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

// "01-layer-norm" and so on, from the programs' sources.
std::vector<std::string> chapters() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root / "apps/tutorial")) {
    const fs::path& path = entry.path();
    const std::string stem = path.stem().string();
    const bool is_chapter = path.extension() == ".cpp" && stem[0] >= '0' && stem[0] <= '9';
    if (is_chapter) names.push_back(replaced(stem, '_', '-'));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string page(const std::string& language, const std::string& name) {
  return TempFolder::get(root / "docs/tutorial" / language / (name + ".md"));
}

std::string source_of(const std::string& chapter) {
  return TempFolder::get(root / "apps/tutorial" / (replaced(chapter, '-', '_') + ".cpp"));
}

// What a page shows between ``` and ```, with the word behind the opening.
struct Block {
  std::string kind, text;
  bool operator==(const Block& other) const { return kind == other.kind && text == other.text; }
};

std::vector<Block> blocks_of(const std::string& markdown) {
  std::vector<Block> blocks;
  bool inside = false;
  std::istringstream stream(markdown);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), ""});
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  REQUIRE_FALSE(inside);
  return blocks;
}

// Without the spaces at the starts of lines, so that an excerpt may stand further left than in its
// source.
std::string unindented(const std::string& text) {
  return std::regex_replace(text, std::regex("(^|\n)[ ]+"), "$1");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Equal, or two numbers whose last printed decimals differ by one: how another processor may round.
bool same_word(const std::string& a, const std::string& b) {
  static const std::regex decimal(R"(-?\d+\.\d+)");
  if (a == b) return true;
  if (!std::regex_match(a, decimal) || !std::regex_match(b, decimal)) return false;
  const std::size_t digits = a.size() - a.find('.') - 1;
  if (digits != b.size() - b.find('.') - 1) return false;
  return std::abs(std::stod(a) - std::stod(b)) < 1.5 * std::pow(10, -static_cast<double>(digits));
}

std::string first_difference(const std::string& shown, const std::string& printed) {
  std::istringstream left(shown), right(printed);
  std::string a, b;
  do {
    a.clear(), b.clear();
    left >> a, right >> b;
    if (!same_word(a, b)) return "the page shows '" + a + "', the program prints '" + b + "'";
  } while (!a.empty());
  return "";
}

const std::string& output_of(const std::string& chapter) {
  static std::map<std::string, std::string> outputs;  // a program runs once, and they run long
  if (outputs.count(chapter) == 0) {
    const Result result = run_program("tutorial/" + chapter, {});
    CHECK(result.code == 0);
    CHECK(result.err.empty());
    outputs[chapter] = result.out;
  }
  return outputs[chapter];
}

// The points of the curve `id` in a picture.
std::vector<std::pair<double, double>> curve(const std::string& svg, const std::string& id) {
  const std::size_t begin = svg.find("points=\"", svg.find("id=\"" + id + "\"")) + 8;
  std::istringstream numbers(replaced(svg.substr(begin, svg.find('"', begin) - begin), ',', ' '));
  std::vector<std::pair<double, double>> points;
  for (double x = 0, y = 0; numbers >> x >> y;) points.emplace_back(x, y);
  return points;
}

}  // namespace

TEST_CASE("each chapter's pages show what its program prints", "[tutorial][slow]") {
  CHECK(chapters().size() == 8);
  for (const std::string& chapter : chapters()) {
    for (const std::string& language : languages) {
      INFO(language << "/" << chapter);
      std::vector<Block> shown;
      for (const Block& block : blocks_of(page(language, chapter))) {
        if (block.kind == "sh" || block.kind == "text") shown.push_back(block);
      }
      REQUIRE(shown.size() >= 2);
      CHECK(shown[0] == Block{"sh", "build/bin/tutorial/" + chapter + "\n"});
      CHECK(shown[1].kind == "text");
      CHECK(first_difference(shown[1].text, output_of(chapter)) == "");
    }
  }
}

TEST_CASE("the programs of the tutorial print the numbers that the tutorials print",
          "[tutorial][slow]") {
  const std::map<std::string, std::vector<std::string>> expected = {
      {"01-layer-norm",
       {"x (2, 3, 4), mean (2, 3, 1), variance (2, 3, 1)", " 2.5 ", " 6.5 ", " 10.5 ", " 1.25 ",
        "-1.34 -0.45  0.45  1.34"}},
      {"02-gelu", {"(2, 3, 768) -> (2, 3, 3072) -> (2, 3, 768)"}},
      {"03-residual-gradients",
       {"0.000201736", "0.000120112", "0.000715204", "0.00139887", "0.00504965", "0.221698",
        "0.206941", "0.328970", "0.266573", "1.32585"}},
      {"04-transformer-block", {"x                 (2, 4, 768)", "+ m = y           (2, 4, 768)"}},
      {"05-gpt2-size",
       {"(2, 4) -> logits (2, 4, 50257)", "163,009,536 parameters, 621.83 MB", "124,412,160 if",
        "2,360,064 of the attention, 4,722,432 of the feed-forward", "12 heads of 64",
        "OpenAI's GPT-2 has 124,439,808 parameters"}},
      {"06-greedy-generation",
       {"15496", "   11", "  314", "  716", "27018", "24086", "47843", "30961", "42348", " 7267",
        "49706", "43231", "47062", "34657",
        "Hello, I am Featureiman Byeswickattribute argue logger Normandy Compton analogous"}},
      // As PyTorch 2.6 draws them with torch.multinomial after torch.manual_seed(42).
      {"07-sampling",
       {"5 tokens become 25",
        "47770 45423 29068 4928 3181 17876 24938 5485 36367 12284 23760 19691 22557 4329 31319 "
        "8012 "
        "4809 17474 17858 29541"}},
      {"08-encoder-decoder",
       {"(2, 7) -> embedded (2, 7, 128) -> encoded (2, 7, 128)", "decoded (2, 5, 128)",
        "(2, 5, 1000), of the last token alone (2, 1, 1000)", "783,360, without embeddings 655,360",
        "59 tensors", "58 of them trained"}},
  };
  for (const std::string& chapter : chapters()) {
    REQUIRE(expected.count(chapter) == 1);
    for (const std::string& number : expected.at(chapter)) {
      CHECK_THAT(output_of(chapter), ContainsSubstring(number));
    }
  }
}

TEST_CASE("code that a chapter shows is in its program, and so is what an exercise takes out",
          "[tutorial]") {
  for (const std::string& chapter : chapters()) {
    const std::string source = unindented(source_of(chapter));
    int excerpts = 0, edits = 0;
    for (const Block& block : blocks_of(page("en", chapter))) {
      INFO(chapter << ":\n" << block.text);
      if (block.kind == "cpp") {
        CHECK(contains(source, unindented(block.text)));
        ++excerpts;
      }
      std::istringstream lines(block.kind == "diff" ? block.text : "");
      for (std::string line; std::getline(lines, line);) {
        if (line.front() != '-') continue;
        CHECK(contains(source, unindented(line.substr(1) + "\n")));
        ++edits;
      }
    }
    INFO(chapter);
    CHECK(excerpts > 0);
    CHECK(edits > 0);
  }
}

TEST_CASE("the tutorial's pages show the same code and outputs in both languages", "[tutorial]") {
  std::vector<std::string> pages = chapters();
  pages.push_back("README");
  for (const std::string& name : pages) {
    INFO(name);
    const std::vector<Block> english = blocks_of(page("en", name));
    const std::vector<Block> chinese = blocks_of(page("zh", name));
    CHECK_FALSE(english.empty());
    CHECK(english == chinese);
  }
}

TEST_CASE("links of the tutorial lead somewhere, and through all chapters", "[tutorial]") {
  static const std::regex link(R"(\]\(([^)#]+))");
  CHECK(contains(TempFolder::get(root / "README.md"), "](docs/tutorial/en/README.md)"));
  CHECK(contains(TempFolder::get(root / "README.md"), "](docs/tutorial/zh/README.md)"));
  std::vector<std::string> pages = chapters();
  pages.insert(pages.begin(), "README");
  for (const std::string& language : languages) {
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const std::string text = page(language, pages[i]);
      INFO(language << "/" << pages[i]);
      for (auto m = std::sregex_iterator(text.begin(), text.end(), link);
           m != std::sregex_iterator(); ++m) {
        INFO(m->str(1));
        CHECK(fs::exists(root / "docs/tutorial" / language / m->str(1)));
      }
      CHECK(contains(text, "](../" + std::string(language == "en" ? "zh" : "en") + "/" + pages[i]));
      if (i + 1 < pages.size()) CHECK(contains(text, "](" + pages[i + 1] + ".md)"));
      if (i > 0) CHECK(contains(page(language, "README"), "](" + pages[i] + ".md)"));
    }
  }
}

TEST_CASE("the picture of GELU shows GELU", "[tutorial]") {
  const std::string svg = TempFolder::get(root / "docs/tutorial/images/gelu.svg");
  const auto values = curve(svg, "gelu"), slopes = curve(svg, "slope");
  CHECK(values.size() > 50);
  REQUIRE(slopes.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    Tape tape;
    const Tensor x = Tensor::scalar(values[i].first, DType::f64);
    tape.watch(x);
    const Tensor y = gelu(x);
    CHECK(std::abs(y.item() - values[i].second) < 6e-4);
    CHECK(std::abs(tape.gradient(y, {x})[0].item() - slopes[i].second) < 6e-4);
    CHECK(slopes[i].first == values[i].first);
  }
}
