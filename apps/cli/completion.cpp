#include "tapegrad/apps/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/option_text.h"

namespace tapegrad::cli {
namespace {

constexpr std::string_view kFilePlaceholders[] = {"FILE", "PATH", "DIR", "MODEL"};

// "last" and "best" of "last|best|STEP": words that stand for a value are in capitals.
std::vector<std::string> words_of(std::string_view placeholder) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < placeholder.size();) {
    const std::size_t end = std::min(placeholder.find('|', begin), placeholder.size());
    const std::string_view word = placeholder.substr(begin, end - begin);
    const bool literal = std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || c == '-';
    });
    if (literal && word != "-") words.emplace_back(word);
    begin = end + 1;
  }
  return words;
}

bool names_files(std::string_view placeholder) {
  return std::any_of(std::begin(kFilePlaceholders), std::end(kFilePlaceholders),
                     [&](std::string_view name) { return placeholder.find(name) != name.npos; });
}

}  // namespace

bool is_completing() { return std::getenv("TAPEGRAD_COMPLETE") != nullptr; }

void Completions::add(std::string_view candidate, std::string_view meaning) {
  if (candidate.starts_with(word)) lines.push_back(fmt::format("{}\t{}", candidate, meaning));
}

void print(const Completions& completions) {
  for (const std::string& line : completions.lines) fmt::print("{}\n", line);
  throw Completed();
}

void CommandLine::complete(int argc, const char* const* argv) const {
  Completions all{argc > 1 ? argv[argc - 1] : ""};
  // bash takes --cache=f for three words.
  const int name = argc > 3 && argv[argc - 2] == std::string_view("=") ? argc - 3 : argc - 2;
  const Option* const before = argc > 2 ? find(argv[name]) : nullptr;
  if (before != nullptr && !before->is_flag()) {
    for (const std::string_view name : before->member.names()) all.add(name);
    for (const std::string& choice : before->choices) all.add(choice);
    if (all.lines.empty()) {
      for (const std::string& word : words_of(before->placeholder)) all.add(word);
    }
    if (names_files(before->placeholder)) all.add_files();
  } else if (all.word.starts_with('-')) {
    for (const Option& option : options_) {
      all.add(option.name, option.help);
      if (option.is_flag() && !option.information) all.add(option.negative(), option.help);
      for (const std::string& alias : option.aliases) all.add(alias, option.help);
    }
  } else if (words_.values != nullptr) {
    all.add_files();
  }
  print(all);
}

}  // namespace tapegrad::cli
