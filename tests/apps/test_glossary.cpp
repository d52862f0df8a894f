// The glossary's words, and the tutorial's links to them.

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

namespace fs = std::filesystem;

namespace {

const fs::path docs = fs::path(tapegrad::places::kSources) / "docs";
using Forms = std::vector<std::string>;
using Languages = std::map<std::string, Forms>;  // "en" and "zh" to the forms of a word

Forms forms_of(const std::string& cell) {
  Forms forms;
  std::istringstream stream(cell);
  for (std::string form; std::getline(stream, form, ',');) {
    forms.push_back(form.substr(form.find_first_not_of(' ')));
  }
  return forms;
}

// The rows | <a name="token"></a>token | token, 词元 | … |, by their names.
std::map<std::string, Languages> glossary() {
  static const std::regex row(
      R"row(\| <a name="([a-z0-9-]+)"></a>([^|]+) \| ([^|]+) \| ([^|]+)<br>([^|]+) \|)row");
  std::map<std::string, Languages> words;
  std::istringstream stream(TempFolder::get(docs / "glossary.md"));
  for (std::string line; std::getline(stream, line);) {
    std::smatch m;
    if (line.find("<a name=") == std::string::npos) continue;
    INFO(line);
    REQUIRE(std::regex_match(line, m, row));
    CHECK(words.count(m[1]) == 0);
    words[m[1]] = {{"en", forms_of(m[2])}, {"zh", forms_of(m[3])}};
  }
  return words;
}

// A page's own sentences: without code, headings, pictures, and links that are not the glossary's.
std::string sentences_of(const std::string& markdown) {
  static const std::regex apart(
      R"(!?\[[^\]]*\]\([^)]*\)|`[^`]*`|<[^>]*>|\[(All chapters|全部章节)\].*)");
  std::string text;
  bool inside = false;
  std::istringstream stream(markdown);
  for (std::string line; std::getline(stream, line);) {
    const bool fence = line.rfind("```", 0) == 0;
    inside = inside != fence;
    const bool definition = line.rfind('[', 0) == 0 && line.find("]: ") != std::string::npos;
    if (!fence && !inside && !definition && line[0] != '#') text += line + " ";
  }
  return std::regex_replace(text, apart, " ");
}

struct Link {
  std::size_t at = 0;
  std::string text;
};
struct Page {
  std::map<std::string, Link> links;        // by the word's name
  std::map<std::string, std::string> ends;  // where the definitions of links lead
  std::string rest;                         // the sentences, with blanks in place of the links
};

Page page_of(const std::string& markdown) {
  static const std::regex link(R"(\[([^\[\]]+)\](?:\[([a-z0-9-]+)\])?)");
  static const std::regex definition(R"(\n\[([^\]\n]+)\]: ([^\n]*))");
  Page page;
  for (auto m = std::sregex_iterator(markdown.begin(), markdown.end(), definition);
       m != std::sregex_iterator(); ++m) {
    page.ends[m->str(1)] = m->str(2);
  }
  page.rest = sentences_of(markdown);
  const std::string text = page.rest;
  for (auto m = std::sregex_iterator(text.begin(), text.end(), link); m != std::sregex_iterator();
       ++m) {
    std::string name = (*m)[2].matched ? m->str(2) : m->str(1);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto at = static_cast<std::size_t>(m->position());
    INFO(m->str());
    CHECK(page.links.count(name) == 0);
    page.links[name] = {at, m->str(1)};
    page.rest.replace(at, static_cast<std::size_t>(m->length()), m->length(), ' ');
  }
  return page;
}

// English forms stand for themselves and a plural, as whole words.
std::regex pattern_of(const Forms& forms) {
  std::string pattern;
  for (const std::string& form : forms) {
    const bool latin = std::isalpha(static_cast<unsigned char>(form[0])) != 0;
    const std::string body = std::regex_replace(form, std::regex(" "), " +");
    if (!pattern.empty()) pattern += "|";
    pattern += latin ? "\\b" + body + "s?\\b" : body;
  }
  return std::regex(pattern, std::regex::icase);
}

// A single Chinese character is part of too many words to be looked for.
bool can_be_sought(const Forms& forms) {
  return std::none_of(forms.begin(), forms.end(), [](const std::string& form) {
    return static_cast<unsigned char>(form[0]) >= 0x80 && form.size() <= 3;
  });
}

}  // namespace

TEST_CASE("the glossary explains sixty words or more, in English and Chinese", "[tutorial]") {
  CHECK(glossary().size() >= 60);
}

TEST_CASE("each chapter links a word of the glossary where it first uses it", "[tutorial]") {
  const auto words = glossary();
  std::set<std::string> linked;
  int pages = 0;
  for (const std::string language : {"en", "zh"}) {
    for (const auto& entry : fs::directory_iterator(docs / "tutorial" / language)) {
      const std::string file = entry.path().filename().string();
      if (file == "README.md") continue;
      ++pages;
      INFO(language << "/" << file);
      const Page page = page_of(TempFolder::get(entry.path()));
      for (const auto& [name, end] : page.ends) {
        INFO(name);
        CHECK(end == "../../glossary.md#" + name);
        CHECK(page.links.count(name) == 1);
      }
      for (const auto& [name, link] : page.links) {
        INFO(name);
        REQUIRE(words.count(name) == 1);
        CHECK(page.ends.count(name) == 1);
        CHECK(std::regex_match(link.text, pattern_of(words.at(name).at(language))));
        linked.insert(name);
      }
      for (const auto& [name, forms] : words) {
        INFO(name);
        if (!can_be_sought(forms.at(language))) continue;
        std::smatch first;
        if (!std::regex_search(page.rest, first, pattern_of(forms.at(language)))) continue;
        REQUIRE(page.links.count(name) == 1);
        CHECK(page.links.at(name).at < static_cast<std::size_t>(first.position()));
      }
    }
  }
  CHECK(pages >= 34);
  for (const auto& [name, forms] : words) {
    INFO(name);
    CHECK(linked.count(name) == 1);
  }
}
