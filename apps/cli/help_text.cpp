// The output of --help and --version.

#include <algorithm>
#include <cstdio>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/completion.h"
#include "tapegrad/apps/cli/field_words.h"
#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/base/version.h"

namespace tapegrad::cli {
namespace {

constexpr std::size_t kHelpColumn = 34;
constexpr const char* kGeneral = "General";  // heading of the options that each program has

std::size_t characters(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

}  // namespace

// "-m, --model", or "--bias, --no-bias".
std::string CommandLine::Option::shown_names() const {
  std::string text;
  for (const std::string& alias : aliases) text += alias + ", ";
  return text + name + (is_flag() && !information ? ", " + negative() : "");
}

// A heading and its options, each on a line. Unless they are `whole`, what follows a semicolon in
// their help is left out.
std::string CommandLine::list_of_options(std::string_view heading,
                                         const std::vector<const Option*>& options,
                                         bool whole) const {
  std::string text = fmt::format("\n{}:\n", heading);
  for (const Option* option : options) {
    const std::string left = "  " + option->shown_names() +
                             (option->placeholder.empty() ? "" : " " + option->placeholder);
    const std::size_t width = characters(left);
    text += left;
    text += width < kHelpColumn ? std::string(kHelpColumn - width, ' ')
                                : "\n" + std::string(kHelpColumn, ' ');
    const std::string value = text_of_default(option->member);
    text += whole ? option->help : option->help.substr(0, option->help.find(';'));
    text += (value.empty() || option->information ? "" : " [" + value + "]") + "\n";
  }
  return text;
}

std::string CommandLine::help_text() const {
  std::string text = fmt::format("{}\n\nUsage: {} [options]{}\n", summary_, program_,
                                 words_.values == nullptr ? "" : " [" + words_.placeholder + "…]");
  if (!common_.empty() && !all_help_) return text + common_help();
  std::vector<std::pair<std::string, std::vector<const Option*>>> groups;
  for (const Option& option : options_) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& g) { return g.first == option.group; });
    if (group == groups.end()) group = groups.insert(group, {option.group, {}});
    group->second.push_back(&option);
  }
  for (const auto& [heading, options] : groups) text += list_of_options(heading, options, true);
  for (const auto& [heading, lines] : lists_) text += fmt::format("\n{}:\n{}", heading, lines);
  return text;
}

// One screen: the options that are used most, and how to find the others.
std::string CommandLine::common_help() const {
  std::string text;
  for (const auto& [heading, names] : common_) {
    std::vector<const Option*> options;
    for (const std::string& name : names) options.push_back(find(name));
    text += list_of_options(heading, options, false);
  }
  if (const auto chosen = chosen_options(); !chosen.empty()) {
    text += list_of_options("Of what you have chosen", chosen, true);
  }
  std::vector<const Option*> general;
  for (const Option& option : options_) {
    if (option.group == kGeneral) general.push_back(&option);
  }
  text += list_of_options(kGeneral, general, false);
  return text + fmt::format(
                    "\nAll {} options, with examples and presets: {} --help all\n"
                    "Those about something:{}tapegrad help WORD, such as tapegrad help quantize\n",
                    options_.size(), program_, std::string(program_.size() + 6, ' '));
}

// Those that only a value that was given has: its help begins with that name.
std::vector<const CommandLine::Option*> CommandLine::chosen_options() const {
  std::vector<const Option*> chosen;
  for (const Option& choice : options_) {
    if (choice.given.empty() || choice.member.names().empty()) continue;
    for (const Option& option : options_) {
      if (option.help.starts_with(choice.given.back() + ": ")) chosen.push_back(&option);
    }
  }
  return chosen;
}

// The options that are about these words, with exit code 1 if there is none.
void CommandLine::print_found(std::string_view words) const {
  const std::vector<const FieldWord*> meant = field_words(words);
  std::vector<const Option*> found;
  for (const Option& option : options_) {
    if (option.group == kGeneral) continue;  // each command has them
    const bool is_named = std::any_of(meant.begin(), meant.end(), [&](const FieldWord* word) {
      return word->names(program_, option.name);
    });
    const bool says_so = has_words(option.name, words) || has_words(option.help, words) ||
                         has_words(option.placeholder, words);
    if (is_named || says_so) found.push_back(&option);
  }
  if (!found.empty()) fmt::print("{}", list_of_options(program_, found, true));
  throw Completed{found.empty() ? 1 : 0};
}

bool CommandLine::printed_information() const {
  if (version_) {
    fmt::print("{} (tapegrad) {}, compiled for {}\n", program_, TAPEGRAD_VERSION, compiled_for());
  } else if (help_) {
    fmt::print("{}", help_text());
  }
  return version_ || help_;
}

}  // namespace tapegrad::cli
