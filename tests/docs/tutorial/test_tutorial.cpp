// The pages of docs/tutorial, in both languages, against the programs that they are about.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

namespace fs = std::filesystem;
using namespace tapegrad;

namespace {

const fs::path root = places::kSources;
const std::vector<std::string> languages = {"en", "zh"};

std::string replaced(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

// "01-tokens" and so on, from the programs' sources.
std::vector<std::string> chapters() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root / "docs/tutorial/programs")) {
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
  return TempFolder::get(root / "docs/tutorial/programs" / (replaced(chapter, '-', '_') + ".cpp"));
}

// A part of a page between ``` and ```, with the word behind the opening.
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

// The text outside of the blocks.
std::string prose_of(const std::string& markdown) {
  std::string prose;
  bool inside = false;
  std::istringstream stream(markdown);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("```", 0) == 0) inside = !inside;
    if (!inside) prose += line + "\n";
  }
  return prose;
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

using Points = std::vector<std::pair<double, double>>;

// The numbers of an attribute of the curve `id` in a picture: "1,2 3,4".
Points curve(const std::string& svg, const std::string& id,
             const std::string& attribute = " points") {
  const std::string start = attribute + "=\"";
  const std::size_t begin = svg.find(start, svg.find("id=\"" + id + "\"")) + start.size();
  std::istringstream numbers(replaced(svg.substr(begin, svg.find('"', begin) - begin), ',', ' '));
  Points points;
  for (double x = 0, y = 0; numbers >> x >> y;) points.emplace_back(x, y);
  return points;
}

// The lines of a program's output in which `pattern` matches everything.
std::vector<std::smatch> lines_like(const std::vector<std::string>& lines, const char* pattern) {
  std::vector<std::smatch> found;
  for (const std::string& line : lines) {
    std::smatch match;
    if (std::regex_match(line, match, std::regex(pattern))) found.push_back(match);
  }
  return found;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<double> numbers_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<double>(stream), std::istream_iterator<double>()};
}

}  // namespace

TEST_CASE("each chapter's pages show what its program prints", "[tutorial][slow]") {
  CHECK(chapters().size() == 19);
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
      // NumPy's rules of broadcasting, and what a reader finds on paper.
      {"00a-tensors",
       {"row 1, column 2: 6", "tensor([[101., 102., 103.],", "[10., 11.]], shape=(2, 2)",
        "= (8, 4, 2)", "mean square 0.0000"}},
      {"00b-gradients",
       {"ratio\n1             21.000000       21.000\n", "12.009\n", "4      4\n", "12     12\n",
        "1  1.7600  0.9200  1.4400"}},
      {"00c-embeddings",
       {"[2., 2.],\n        [0., 0.]], shape=(4, 2)", "step 300, loss 0.694", "sleeps   0.0000"}},
      // The merges of Sennrich, Haddow & Birch, 2016, and GPT-2's ids as tiktoken has them.
      {"01-tokens",
       {"1          9   'es'        'es'", "9          6   ' newest'   ' newest'",
        "becomes ' low' 'est' by hand", "ids 32942 26081 582"}},
      {"02-layer-norm",
       {"x (2, 3, 4), mean (2, 3, 1), variance (2, 3, 1)", " 2.5 ", " 6.5 ", " 10.5 ", " 1.25 ",
        "-1.34 -0.45  0.45  1.34"}},
      {"03-gelu", {"(2, 3, 768) -> (2, 3, 3072) -> (2, 3, 768)"}},
      {"04-residual-gradients",
       {"0.000201736", "0.000120112", "0.000715204", "0.00139887", "0.00504965", "0.221698",
        "0.206941", "0.328970", "0.266573", "1.32585"}},
      {"05-attention",
       {"0.5517  0.4483", "0.3800  0.3097  0.3103", "0.2758  0.2460  0.2462  0.2319",
        "0.1935  0.1663  0.1666  0.1542  0.1666  0.1529", "0.3190  0.4858  0.3190  0.4858",
        "0.2575  0.4028  0.2575  0.4028"}},
      {"06-attention-at-work", {"=      n ", "t      a   100   0", "n      o ", "t      t "}},
      {"07-transformer-block", {"x                 (2, 4, 768)", "+ m = y           (2, 4, 768)"}},
      {"08-gpt2-size",
       {"(2, 4) -> logits (2, 4, 50257)", "163,009,536 parameters, 621.83 MB", "124,412,160 if",
        "2,360,064 of the attention, 4,722,432 of the feed-forward", "12 heads of 64",
        "OpenAI's GPT-2 has 124,439,808 parameters"}},
      {"09-greedy-generation",
       {"15496", "   11", "  314", "  716", "27018", "24086", "47843", "30961", "42348", " 7267",
        "49706", "43231", "47062", "34657",
        "Hello, I am Featureiman Byeswickattribute argue logger Normandy Compton analogous"}},
      // As PyTorch 2.6 draws them with torch.multinomial after torch.manual_seed(42).
      {"10-sampling",
       {"5 tokens become 25",
        "47770 45423 29068 4928 3181 17876 24938 5485 36367 12284 23760 19691 22557 4329 31319 "
        "8012 "
        "4809 17474 17858 29541"}},
      {"11-loss",
       {"0.00007454", "0.00003106", "0.00001156", "0.00001033", "0.00005677", "0.00000475",
        "cross_entropy 10.7940, ln 50257 = 10.8249, perplexity 48725.8"}},
      {"12-training-loop", {"26848 parameters", "3.321       3.318"}},
      {"13-fine-tuning", {"12,704", "1,152"}},
      {"14-encoder-decoder",
       {"(2, 7) -> embedded (2, 7, 128) -> encoded (2, 7, 128)", "decoded (2, 5, 128)",
        "(2, 5, 1000), of the last token alone (2, 1, 1000)", "783,360, without embeddings 655,360",
        "59 tensors", "58 of them trained"}},
      {"15-answers", {"8 of 22 tokens count", "100   d-u-s-t      t-s-u-d", "f-r-o-g"}},
      // Sobel's kernel on an edge: 1 + 2 + 1.
      {"16-convolution",
       {"  4  4  0  0 -4 -4\n", "by hand the same: true", "weights: 9; of a linear layer",
        " -1.96 -0.07  2.04\n"}},
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
      const std::string text = prose_of(page(language, pages[i]));
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

TEST_CASE("the picture of attention shows the percentages of its chapter's program",
          "[tutorial][slow]") {
  const std::string svg = TempFolder::get(root / "docs/tutorial/images/attention.svg");
  const std::vector<std::string> lines = lines_of(output_of("06-attention-at-work"));
  const auto rows = lines_like(lines, R"( +\S +\S((?: +\d+){18}))");
  REQUIRE(rows.size() == 18);
  static const std::regex cell("fill-opacity=\"([^\"]+)\"");
  for (std::size_t map = 0; map < 4; ++map) {
    const std::string id = std::string(map < 2 ? "backwards" : "sorted") + (map % 2 ? "-2" : "-1");
    INFO(id);
    const std::size_t begin = svg.find("<g id=\"" + id + "\"");
    REQUIRE(begin != std::string::npos);
    const std::string cells = svg.substr(begin, svg.find("</g>", begin) - begin);
    std::vector<double> drawn, printed;
    for (auto m = std::sregex_iterator(cells.begin(), cells.end(), cell);
         m != std::sregex_iterator(); ++m) {
      drawn.push_back(std::round(100 * std::stod(m->str(1))));
    }
    for (std::size_t row = 0; row < 9; ++row) {
      const std::vector<double> percents = numbers_of(rows[9 * (map / 2) + row].str(1));
      const auto first = percents.begin() + static_cast<std::ptrdiff_t>(9 * (map % 2));
      printed.insert(printed.end(), first, first + 9);
    }
    CHECK(drawn == printed);
  }
}

TEST_CASE("the loss curve shows the losses of its chapter's program", "[tutorial][slow]") {
  const std::string svg = TempFolder::get(root / "docs/tutorial/images/loss-curve.svg");
  const std::vector<std::string> lines = lines_of(output_of("12-training-loop"));
  const auto rows = lines_like(lines, R"( *\d+(?: +\d+\.\d+){5})");
  CHECK(rows.size() == 13);
  const std::vector<std::pair<std::string, std::size_t>> columns = {
      {"rate", 1}, {"training", 4}, {"validation", 5}};
  for (const auto& [id, column] : columns) {
    INFO(id);
    const Points drawn = curve(svg, id), values = curve(svg, id, "data-values");
    REQUIRE(values.size() == rows.size());
    REQUIRE(drawn.size() == rows.size());
    const auto lower = [](auto& a, auto& b) { return a.second < b.second; };
    const auto [low, high] = std::minmax_element(values.begin(), values.end(), lower);
    const auto [top, bottom] = std::minmax_element(drawn.begin(), drawn.end(), lower);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<double> row = numbers_of(rows[i].str());
      CHECK(values[i].first == row[0]);
      CHECK(std::abs(values[i].second - row[column] * (id == "rate" ? 1000 : 1)) < 1.5e-3);
      // The points lie where the values are: y is a linear function of them.
      const double height = (values[i].second - low->second) / (high->second - low->second);
      const double y = bottom->second - height * (bottom->second - top->second);
      CHECK(std::abs(drawn[i].second - y) < 0.5);
    }
  }
}
