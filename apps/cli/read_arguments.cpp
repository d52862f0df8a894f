#include <algorithm>
#include <cctype>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/nanogpt_names.h"
#include "tapegrad/apps/cli/option_text.h"

namespace tapegrad::cli {
namespace {

bool is_option(std::string_view arg) { return arg.starts_with("--") && arg.size() > 2; }

bool is_whole_number(std::string_view arg) {
  return !arg.empty() && arg.find_first_not_of("0123456789") == arg.npos;
}

// "-k", "-k=5", "-lr": nobody means these for a word. "-5" and "-" are words.
bool has_one_dash(std::string_view arg) {
  return arg.size() >= 2 && arg[0] == '-' && std::isalpha(static_cast<unsigned char>(arg[1])) != 0;
}

// "--lr" of "--lr=0.1".
std::string name_in(std::string_view arg) { return std::string(arg.substr(0, arg.find('='))); }

}  // namespace

bool CommandLine::is_known(std::string_view arg) const {
  return (is_option(arg) || has_one_dash(arg)) && find(name_in(arg)) != nullptr;
}

// The arguments that are options, and their values; the others are words.
void CommandLine::read_arguments(int argc, const char* const* argv) {
  for (Option& option : options_) option.given.clear(), option.alone = false;
  std::vector<std::string> words;
  bool only_words = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (!only_words && arg == "--") {
      only_words = true;
    } else if (!only_words && (is_option(arg) || is_known(arg))) {
      i = read_option(i, argc, argv);
    } else if (!only_words && has_one_dash(arg)) {
      fail_dash(arg);
    } else if (words_.values != nullptr) {
      words.push_back(arg);
    } else {
      usage_error("unexpected argument '{}'", arg);
    }
  }
  if (words_.values != nullptr) *words_.values = words;
}

// For "-n2", "-lr" and other words with one dash that are no option.
void CommandLine::fail_dash(const std::string& arg) const {
  std::string hint;
  if (const std::string letter = arg.substr(0, 2); is_known(letter)) {
    hint = fmt::format("; write {} {}", letter, arg.substr(2));
  } else if (is_known("-" + arg)) {
    hint = fmt::format("; write -{}", arg);
  } else if (const std::string meant = meant_option(name_in(arg)); !meant.empty()) {
    hint = fmt::format("; did you mean {}?", meant);
  } else if (words_.values != nullptr) {
    hint = "; as a word, it stands after --";
  }
  usage_error("unknown option {}{}", arg, hint);
}

// Takes the option argv[i] and its values. Returns where the last of them is.
int CommandLine::read_option(int i, int argc, const char* const* argv) {
  const std::string arg = argv[i], name = name_in(arg);
  const bool has_value = name != arg;
  Option* option = find(name);
  if (is_option(arg) && (option == nullptr || has_value) && takes_nanogpt(arg)) return i;
  if (option == nullptr) fail_unknown(name, "");
  const std::string value = has_value ? arg.substr(name.size() + 1) : "";
  if (option->information && has_value) usage_error("{} takes no value", name);
  if (option->is_flag()) {
    const bool on = !has_value || parse_switch(name, value);
    const bool negative = !option->information && with_hyphens(name) == option->negative();
    option->given = {on != negative ? "true" : "false"};
    if (option->name != "--help" || i + 1 == argc || argv[i + 1] != std::string_view("all"))
      return i;
    all_help_ = true;
    return i + 1;
  }
  if (!option->is_list()) option->given.clear();
  const auto is_own_value = [&](std::string_view next) {
    const auto names = option->member.names();
    return is_whole_number(next) || std::find(names.begin(), names.end(), next) != names.end();
  };
  option->alone =
      !has_value && !option->without_value.empty() && (i + 1 == argc || !is_own_value(argv[i + 1]));
  if (has_value || option->alone) {
    option->given.push_back(has_value ? value : option->without_value);
    return i;
  }
  if (i + 1 == argc) usage_error("{} needs a value", name);
  if (const std::string next = argv[i + 1]; is_option(next) && is_known(next)) {
    usage_error("{0} needs a value (if it is to be '{1}', write {0}={1})", name, next);
  }
  do {
    option->given.emplace_back(argv[++i]);
  } while (option->is_list() && !option->one_each && i + 1 < argc &&
           !std::string_view(argv[i + 1]).starts_with("--") && !is_known(argv[i + 1]));
  return i;
}

// An option that only nanoGPT has, NAME=VALUE as there, becomes ours.
bool CommandLine::takes_nanogpt(const std::string& arg) {
  const std::size_t equals = arg.find('=');
  const std::string name = option_name(arg.substr(2, equals - 2));
  std::optional<std::string> value;
  if (equals != arg.npos) value = arg.substr(equals + 1);
  const auto ours = of_nanogpt(name, value);
  if (!ours) return false;
  Option* option = ours->option.empty() ? nullptr : find(ours->option);
  if (!ours->option.empty() && option == nullptr) return false;
  note(ours->note);
  if (option != nullptr) option->given = {ours->value};
  return true;
}

}  // namespace tapegrad::cli
