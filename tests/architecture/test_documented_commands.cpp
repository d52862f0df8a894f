// Commands in the documents and in the scripts of tests/clients name what there is.

#include <algorithm>
#include <regex>
#include <set>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Group 1 of every match.
std::vector<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i) {
    found.push_back((*i)[1]);
  }
  return found;
}

void add_words(const std::string& text, Names& names) {
  std::istringstream words(text);
  for (std::string word; words >> word;) names.insert(word);
}

// All CMakeLists.txt of the project.
std::string cmake_text() {
  const fs::path root = tapegrad::places::kSources;
  std::string text = read(root / "CMakeLists.txt");
  for (const char* folder : {"base", "comm", "autograd", "nn", "optim", "data", "arrays", "run",
                             "apps", "docs", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().filename() == "CMakeLists.txt") text += read(entry.path());
    }
  }
  return text;
}

struct Known {
  Names targets, links, commands;
  std::string sources;  // of the programs and libraries, and of CMake

  Known() : sources(cmake_text()) {
    for (const char* pattern :
         {R"(add_(?:executable|library|custom_target)\(([\w-]+))", R"(OUTPUT_NAME ([\w-]+))"}) {
      for (const std::string& name : matches(sources, pattern)) targets.insert(name);
    }
    for (const std::string& names : matches(sources, R"(foreach\(program ([^)]*)\))"))
      add_words(names, targets);
    for (const std::string& names :
         matches(sources, R"(foreach\(name ([^)]*)\)\s+add_custom_command\(TARGET)")) {
      add_words(names, links);
    }
    for (const auto& [path, text] : read_sources(
             {"base", "comm", "autograd", "nn", "optim", "data", "arrays", "run", "apps"})) {
      sources += text;
    }
    for (const std::string& name : matches(sources, R"(cli::Command \w+\("([\w-]+))")) {
      commands.insert(name);
    }
  }

  // An option is a string of some source, as it is or with underscores; no-NAME stands for NAME.
  bool has_option(std::string name) const {
    for (const bool negative : {false, true}) {
      if (negative && !name.starts_with("no-")) return false;
      if (negative) name = name.substr(3);
      std::string member = name;
      std::replace(member.begin(), member.end(), '-', '_');
      for (const std::string& form : {'"' + name + '"', '"' + member + '"', "--" + name}) {
        if (sources.find(form) != std::string::npos) return true;
      }
    }
    return false;
  }
};

// Lines that are joined by a backslash are one.
std::string joined(std::string text) {
  return std::regex_replace(text, std::regex(R"(\\\n\s*)"), " ");
}

void check_commands(const std::string& where, const std::string& text, const Known& known) {
  for (const std::string& names : matches(text, R"(--target ((?:[\w-]+ ?)+))")) {
    Names targets;
    add_words(names, targets);
    for (const std::string& name : targets) {
      if (name.starts_with("-")) break;
      INFO(where << ": --target " << name);
      CHECK(known.targets.count(name) == 1);
    }
  }
  for (const std::string& name : matches(text, R"re(build"?/bin/([\w-]+))re")) {
    INFO(where << ": build/bin/" << name);
    CHECK((known.links.count(name) == 1 || known.targets.count(name) == 1));
  }
  for (const std::string& name :
       matches(text, R"re((?:^|\n|build"?/bin/)\s*tapegrad"? ([a-z][\w-]*))re")) {
    INFO(where << ": tapegrad " << name);
    CHECK((known.commands.count(name) == 1 || known.links.count(name) == 1));
  }
  for (
      const std::string& line : matches(
          text,
          R"re(((?:build"?/bin/|\n\s*)(?:tapegrad|train-gpt|sample-text|train-seq2seq)"? [^\n]*))re")) {
    for (const std::string& name :
         matches(line.substr(0, line.find(" #")), R"([\s\[]--([a-z][\w-]+))")) {
      INFO(where << ": --" << name << " in " << line);
      CHECK(known.has_option(name));
    }
  }
  for (
      const std::string& name : matches(
          text,
          R"((?:^|[\s`(])((?:tests|scripts|examples)/[\w./-]*\w\.(?:sh|py|cpp|h|txt|cmake|mjs|json)))")) {
    INFO(where << ": " << name);
    CHECK(fs::exists(fs::path(tapegrad::places::kSources) / name));
  }
}

}  // namespace

TEST_CASE(
    "commands in documents and scripts name targets, programs, options and files that exist") {
  const Known known;
  CHECK(known.targets.count("programs") == 1);
  CHECK(known.links.count("train-gpt") == 1);
  CHECK(known.targets.count("export") == 0);
  CHECK(known.has_option("max-new-tokens"));
  CHECK(!known.has_option("max-new-words"));
  const fs::path root = tapegrad::places::kSources;
  std::vector<fs::path> files = {root / "README.md", root / "CONTRIBUTING.md"};
  for (const char* folder : {"docs", "tests/clients", "tests/bench", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string path = entry.path().string();
      if (path.find("node_modules") != std::string::npos) continue;
      if (path.ends_with(".md") || path.ends_with(".sh")) files.push_back(path);
    }
  }
  for (const fs::path& file : files) {
    check_commands(fs::relative(file, root).string(), joined(read(file)), known);
  }
}
