// The output of --help and --version.

#include <algorithm>
#include <cstdio>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/base/version.h"

namespace tapegrad::cli {
namespace {

constexpr std::size_t kHelpColumn = 34;

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

std::string CommandLine::help_text() const {
  std::string text = fmt::format("{}\n\nUsage: {} [options]{}\n", summary_, program_,
                                 words_.values == nullptr ? "" : " [" + words_.placeholder + "…]");
  std::vector<std::string> groups;
  for (const Option& option : options_) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  for (const std::string& group : groups) {
    text += fmt::format("\n{}:\n", group);
    for (const Option& option : options_) {
      if (option.group != group) continue;
      const std::string left = "  " + option.shown_names() +
                               (option.placeholder.empty() ? "" : " " + option.placeholder);
      const std::size_t width = characters(left);
      text += left;
      text += width < kHelpColumn ? std::string(kHelpColumn - width, ' ')
                                  : "\n" + std::string(kHelpColumn, ' ');
      const std::string value = text_of_default(option.member);
      text += option.help + (value.empty() || option.information ? "" : " [" + value + "]") + "\n";
    }
  }
  for (const auto& [heading, lines] : lists_) text += fmt::format("\n{}:\n{}", heading, lines);
  return text;
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
