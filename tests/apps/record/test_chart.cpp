// --chart: what a terminal shows of it.

#include <regex>

#include "tapegrad/tests/apps/on_terminal.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

// The final lines of a terminal of endless height: it knows the sequences that are used.
std::vector<std::string> screen_of(const std::string& bytes, std::size_t columns) {
  std::vector<std::vector<std::string>> cells(1);
  std::size_t row = 0, column = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const char c = bytes[i];
    if (c == '\r') {
      column = 0, ++i;
    } else if (c == '\n') {
      if (++row == cells.size()) cells.emplace_back();
      ++i;
    } else if (c == '\x1b') {
      const std::size_t end = bytes.find_first_not_of("[0123456789", i + 1);
      REQUIRE(end != bytes.npos);
      const std::string number = bytes.substr(i + 2, end - i - 2);
      const char what = bytes[end];
      INFO(what);
      REQUIRE((what == 'A' || what == 'J' || what == 'K'));
      if (what == 'A') {
        REQUIRE(std::stoul(number) <= row);
        row -= std::stoul(number);
      } else {
        cells[row].resize(std::min(cells[row].size(), column));
        if (what == 'J') cells.resize(row + 1);
      }
      i = end + 1;
    } else {
      const auto lead = static_cast<unsigned char>(c);
      const std::size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      if (column == columns) {  // a long line goes on in the next row
        if (++row == cells.size()) cells.emplace_back();
        column = 0;
      }
      if (cells[row].size() <= column) cells[row].resize(column + 1, " ");
      cells[row][column++] = bytes.substr(i, size);
      i += size;
    }
  }
  std::vector<std::string> lines;
  for (const auto& cell : cells) {
    lines.emplace_back();
    for (const std::string& character : cell) lines.back() += character;
  }
  return lines;
}

bool has_braille(const std::string& text) {
  for (std::size_t at = 0; (at = text.find('\xe2', at)) != text.npos; ++at) {
    const auto next = static_cast<unsigned char>(text.at(at + 1));
    if (next >= 0xa0 && next <= 0xa3) return true;
  }
  return false;
}

struct Corpus {
  TempFolder folder;
  Args args = tiny_run(folder.put("text.txt", tiny_text()), folder / "run", 300) +
              Args{"--log-interval", "20", "--eval-interval", "100", "--chart"};
};

}  // namespace

TEST_CASE("--chart draws below the lines, and stays once at the end", "[chart]") {
  const Corpus corpus;
  const std::string bytes = on_terminal("train-gpt", corpus.args);
  CHECK_THAT(bytes, ContainsSubstring("A\x1b[J"));  // it was drawn again
  const std::vector<std::string> lines = screen_of(bytes, 90);
  int charts = 0, braille = 0;
  std::string all;
  for (const std::string& line : lines) {
    charts += line.find("loss of steps, o val loss") != line.npos ? 1 : 0;
    braille += has_braille(line) ? 1 : 0;
    all += line + "\n";
  }
  INFO(all);
  CHECK(charts == 1);
  CHECK(braille >= 3);
  CHECK(braille <= 9);
  for (int i = 0; i < 300; i += 20) {
    const std::string iter = "\niter " + std::to_string(i) + ": loss";
    CHECK(all.find(iter) != all.npos);
    CHECK(all.find(iter) == all.rfind(iter));
  }
  CHECK_FALSE(std::regex_search(all, std::regex("[0-9]%")));  // the line of progress is gone
  CHECK_THAT(all, ContainsSubstring("\nThe run is in"));
}

TEST_CASE("there is no chart without room, or without a terminal", "[chart]") {
  const Corpus corpus;
  CHECK_FALSE(has_braille(on_terminal("train-gpt", corpus.args, {.columns = 20})));
  CHECK_FALSE(
      has_braille(on_terminal("train-gpt", corpus.args + Args{"--overwrite"}, {.rows = 5})));
  const Result r = train(corpus.args + Args{"--overwrite"});
  check_ended_well(r);
  CHECK(r.out.find('\x1b') == r.out.npos);
  CHECK_FALSE(has_braille(r.out));
}
