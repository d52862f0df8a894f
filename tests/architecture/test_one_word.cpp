// docs/glossary.md says which word stands for a thing: the others are found nowhere.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = tapegrad::places::kSources;
const std::string kGlossary = "docs/glossary.md";

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The words of the left column, without the backquotes of identifiers.
std::vector<std::string> words_not_to_use() {
  std::istringstream lines(text_of(kRoot / kGlossary));
  std::string line;
  while (std::getline(lines, line) && line != "| instead of | we say |") {
  }
  std::getline(lines, line);  // |---|---|
  std::vector<std::string> words;
  while (std::getline(lines, line) && line.starts_with("| ")) {
    std::istringstream cell(line.substr(2, line.find(" | ") - 2));
    for (std::string word; std::getline(cell, word, ',');) {
      std::erase(word, '`');
      words.push_back(word.substr(word.find_first_not_of(' ')));
    }
  }
  return words;
}

// With each stretch of blanks, and of what begins the next line of a comment, as one space.
std::string on_one_line(const std::string& text) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string_view rest = line;
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.starts_with("// ")) rest.remove_prefix(3);
    all += std::string(rest) + " ";
  }
  return all;
}

// Comments and code of the sources, and pages.
const std::map<std::string, std::string>& texts() {
  static const auto all = [] {
    std::map<std::string, std::string> found = {
        {"README.md", on_one_line(text_of(kRoot / "README.md"))}};
    std::vector<std::string> folders = kLibraryAndPrograms;
    folders.emplace_back("docs");
    for (const std::string& folder : folders) {
      for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
        const std::string end = entry.path().extension().string();
        const std::string path = fs::relative(entry.path(), kRoot).generic_string();
        if ((end != ".h" && end != ".cpp" && end != ".md") || path == kGlossary) continue;
        found[path] = on_one_line(text_of(entry.path()));
      }
    }
    return found;
  }();
  return all;
}

// True if `word` stands in `text` as a whole word, its first letter in either case.
bool contains(const std::string& text, std::string word) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  const auto found = [&] {
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const auto end = at + word.size();
      if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) {
        return true;
      }
    }
    return false;
  };
  if (found()) return true;
  if (word.find(' ') == std::string::npos) return false;  // an identifier
  word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
  return found();
}

}  // namespace

TEST_CASE("a thing has one word in code, comments, help and pages", "[words]") {
  const auto words = words_not_to_use();
  CHECK(words.size() >= 20);
  const auto& all = texts();
  CHECK(all.size() > 500);
  for (const std::string& word : words) {
    for (const auto& [path, text] : all) {
      if (!contains(text, word)) continue;
      FAIL_CHECK(path << " has '" << word << "': docs/glossary.md says what stands for it");
    }
  }
}

TEST_CASE("a word that is sought is found over the ends of lines, and as a whole", "[words]") {
  CHECK(contains("a packed matrix", "packed matrix"));
  CHECK(contains("Packed matrix", "packed matrix"));
  CHECK_FALSE(contains("unpacked matrix", "packed matrix"));
  CHECK_FALSE(contains("begin_passes", "begin_pass"));
}

TEST_CASE("what the field calls a thing is found in code and in pages", "[words]") {
  std::string code, pages;
  for (const auto& [path, text] : texts()) {
    if (path == "apps/cli/field_words.cpp") continue;
    std::string& all = path.ends_with(".md") ? pages : code;
    for (const char c : text) {
      const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      all += lower == 'z' ? 's' : lower;
    }
  }
  for (const std::string word :
       {"quantise", "dequantise", "prefill", "speculative", "kv cache", "flash", "mixed precision",
        "beam search", "early stopping", "data parallel", "gradient accumulation", "top-p"}) {
    INFO(word);
    CHECK(code.find(word) != code.npos);
    CHECK(pages.find(word) != pages.npos);
  }
}
