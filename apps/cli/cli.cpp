#include "tapegrad/apps/cli/cli.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <new>
#include <sstream>

#include "tapegrad/autograd/base/file.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::apps {
namespace {

constexpr int64_t max_config_bytes = 1 << 20;

std::string with_dashes(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

// Insertions, deletions, replacements and swaps of neighbours that make one word of the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// The candidate that `word` was probably meant to be, or nothing.
template <class Candidates>
std::string nearest(std::string_view word, const Candidates& candidates) {
  std::string best;
  size_t least = word.size() / 5 + 2;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

template <class T>
T parse_whole(const std::string& name, const std::string& text, double least) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range && stop == end) {
    usage_error("{}: {} is too large or too small", name, text);
  }
  if (error != std::errc() || stop != end) {
    usage_error("{}: '{}' is not a whole number{}", name, text,
                std::is_unsigned_v<T> ? " of 0 or more" : "");
  }
  if (static_cast<double>(value) < least) {
    usage_error("{}: must be at least {}, not {}", name, least, text);
  }
  return value;
}

// Of UTF-8, for columns.
size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80U; }));
}

bool parse_switch(const std::string& name, std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  usage_error("{}: '{}' is neither true nor false", name, text);
}

}  // namespace

void as_usage(const std::function<void()>& check_values) {
  try {
    check_values();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

CommandLine::CommandLine(std::string program, std::string summary)
    : program_(std::move(program)), summary_(std::move(summary)) {
  group("General");
  flag("--help", help_, "show this text");
  flag("--version", version_, "show the version");
  option("--config", config_, "FILE", "read options from a file with lines such as seed = 1");
}

void CommandLine::group(std::string heading) {
  // General is made first and shown last.
  const auto at = groups_.empty() ? groups_.end() : groups_.end() - 1;
  groups_.insert(at, Group{std::move(heading), {}});
}

void CommandLine::add(Option option) {
  // A program's own options without a heading stand with the general ones.
  auto& group = groups_.size() > 1 ? groups_[groups_.size() - 2] : groups_.back();
  group.options.push_back(std::make_unique<Option>(std::move(option)));
  Option* added = group.options.back().get();
  by_name_[added->name] = added;
  if (added->negatable) by_name_["--no-" + added->name.substr(2)] = added;
}

void CommandLine::choice(const std::string& name, std::string& value,
                         const std::vector<std::string>& choices, const std::string& help) {
  const std::string list = fmt::format("{}", fmt::join(choices, "|"));
  add({name, list, help, value, false, [&value, name, choices](const auto& texts) {
         const std::string& text = texts.back();
         if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
           const std::string meant = nearest(text, choices);
           usage_error("{}: '{}' is not one of {}{}", name, text, fmt::join(choices, ", "),
                       meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
         }
         value = text;
       }});
}

void CommandLine::flag(const std::string& name, bool& value, const std::string& help,
                       bool negatable) {
  const std::string default_text = !negatable ? "" : value ? "yes" : "no";
  add({name, "", help, default_text, false,
       [&value, name](const auto& texts) { value = parse_switch(name, texts.back()); }, true,
       negatable});
}

void CommandLine::list(const std::string& heading, const std::string& item,
                       const std::string& explanation) {
  auto it = std::find_if(lists_.begin(), lists_.end(),
                         [&](const auto& list) { return list.first == heading; });
  if (it == lists_.end()) it = lists_.insert(it, {heading, ""});
  it->second += fmt::format("  {}\n      {}\n", item, explanation);
}

void CommandLine::parse_value(const std::string& name, const std::string& text, double least,
                              int& v) {
  v = parse_whole<int>(name, text, least);
}

void CommandLine::parse_value(const std::string& name, const std::string& text, double least,
                              int64_t& v) {
  v = parse_whole<int64_t>(name, text, least);
}

void CommandLine::parse_value(const std::string& name, const std::string& text, double least,
                              uint64_t& v) {
  v = parse_whole<uint64_t>(name, text, least);
}

void CommandLine::parse_value(const std::string& name, const std::string& text, double least,
                              double& v) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    usage_error("{}: '{}' is not a number", name, text);
  }
  if (value < least) usage_error("{}: must be at least {}, not {}", name, least, text);
  v = value;
}

void CommandLine::parse_value(const std::string&, const std::string& text, double, std::string& v) {
  v = text;
}

CommandLine::Option* CommandLine::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

bool CommandLine::given(const std::string& name) const {
  const Option* option = find(name);
  check(option != nullptr, "there is no option {}", name);
  return !option->given.empty();
}

void CommandLine::fail_unknown(const std::string& name, const std::string& where) const {
  std::vector<std::string> names;
  for (const auto& entry : by_name_) names.push_back(entry.first);
  const std::string meant = nearest(name, names);
  usage_error("{}unknown option {}{}", where, name,
              meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

// The arguments, last one first as CLI11 takes them, with - for _ in the names of options, with
// --name=value as two, and --flag=false as --no-flag. What stands where an option expects its value
// is left alone.
std::vector<std::string> CommandLine::normalized(int argc, const char* const* argv) {
  std::vector<std::string> args;
  const Option* waiting = nullptr;  // the option whose value comes next
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const size_t end = std::min(arg.find('='), arg.size());
    const std::string name = with_dashes(arg.substr(0, end));
    const Option* option = arg.rfind("--", 0) == 0 ? find(name) : nullptr;
    if (waiting != nullptr) {
      if (option != nullptr) {
        usage_error("{0} needs a value (if it is to be '{1}', write {0}={1})", waiting->name, arg);
      }
      args.push_back(arg);
      waiting = nullptr;
    } else if (option != nullptr && option->flag) {
      const bool negated = name != option->name;
      const bool on = end == arg.size() || parse_switch(name, arg.substr(end + 1));
      if (on != negated) args.push_back(option->name);
      if (on == negated && option->negatable) args.push_back("--no-" + option->name.substr(2));
    } else if (option != nullptr) {
      args.push_back(name);
      if (end < arg.size()) {
        args.push_back(arg.substr(end + 1));
      } else {
        waiting = option;
      }
    } else if (arg == "-h") {
      args.push_back("--help");
    } else if (arg == "--" && words_.values != nullptr) {
      words_.values->insert(words_.values->end(), argv + i + 1, argv + argc);
      break;
    } else if (arg.rfind("--", 0) == 0) {
      fail_unknown(arg.substr(0, end), "");
    } else if (words_.values != nullptr) {
      words_.values->push_back(arg);
    } else {
      args.push_back(arg);
    }
  }
  if (waiting != nullptr) usage_error("{} needs a value", waiting->name);
  std::reverse(args.begin(), args.end());
  return args;
}

void CommandLine::parse_arguments(const std::vector<std::string>& args) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  for (const auto& entry : by_name_) {
    const std::string& name = entry.first;
    Option* option = entry.second;
    if (option->flag) {
      const bool negated = name != option->name;
      app.add_flag_function(name, [option, negated](int64_t count) {
        option->given.push_back((count > 0) != negated ? "true" : "false");
      });
      continue;
    }
    CLI::Option* added = app.add_option(name, [option](const std::vector<std::string>& values) {
      option->given = values;
      return true;
    });
    if (option->list) {
      added->expected(1, 1 << 20);
    } else {
      added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
  try {
    app.parse(std::vector<std::string>(args));
  } catch (const CLI::ParseError& error) {
    usage_error("{}", error.what());
  }
  if (const auto extra = app.remaining(); !extra.empty()) {
    usage_error("unexpected argument '{}'", extra.front());
  }
}

void CommandLine::parse_config() {
  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream text(read_file(config_, max_config_bytes));
    items = CLI::ConfigTOML().from_config(text);
  } catch (const Error& error) {
    usage_error("--config: {}", error.what());
  } catch (const CLI::Error& error) {
    usage_error("--config {}: {}", config_, error.what());
  }
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // where a section begins and ends
    const std::string name = "--" + with_dashes(item.name);
    Option* option = find(name);
    if (option == nullptr) fail_unknown(name, fmt::format("--config {}: ", config_));
    if (!option->given.empty()) continue;
    if (item.inputs.size() != 1 && !option->list) {
      usage_error("--config {}: {} needs one value, not {}", config_, name, item.inputs.size());
    }
    option->given = item.inputs;
    if (option->name != name) {
      option->given = {parse_switch(name, item.inputs.front()) ? "false" : "true"};
    }
  }
}

bool CommandLine::parse(int argc, const char* const* argv) {
  parse_arguments(normalized(argc, argv));
  if (given("--help")) {
    fmt::print("{}", help());
    return false;
  }
  if (given("--version")) {
    fmt::print("{} (tapegrad) {}\n", program_, TAPEGRAD_VERSION);
    return false;
  }
  if (given("--config")) {
    config_ = find("--config")->given.back();
    parse_config();
  }
  apply();
  return true;
}

void CommandLine::apply() const {
  for (const Group& group : groups_) {
    for (const auto& option : group.options) {
      if (!option->given.empty()) option->set(option->given);
    }
  }
}

std::string CommandLine::help() const {
  constexpr size_t column = 34;
  std::string text = fmt::format("{}\n\nUsage: {} [options]", summary_, program_);
  text += words_.values == nullptr
              ? "\n"
              : fmt::format(" [{0}…]\n\n  {0}: {1}\n", words_.placeholder, words_.help);
  for (const Group& group : groups_) {
    if (group.options.empty()) continue;
    text += fmt::format("\n{}:\n", group.heading);
    for (const auto& option : group.options) {
      std::string left = "  " + option->name;
      if (option->negatable) left += ", --no-" + option->name.substr(2);
      if (!option->placeholder.empty()) left += " " + option->placeholder;
      const size_t width = characters(left);
      const std::string gap =
          width + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - width, ' ');
      text += left + gap + option->help;
      if (!option->default_text.empty()) text += fmt::format(" [{}]", option->default_text);
      text += '\n';
    }
  }
  for (const auto& [heading, lines] : lists_) text += fmt::format("\n{}:\n{}", heading, lines);
  return text;
}

int run_main(const std::string& program, const std::function<int()>& body) {
  int code = 1;
  std::string message;
  try {
    static_cast<void>(gemm_description());  // throws for a library that would give wrong results
    code = body();
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    check(written || code == interrupted_exit_code, "the output could not be written");
  } catch (const UsageError& error) {
    code = 2;
    message = fmt::format("{}\nTry '{} --help'.", error.what(), program);
  } catch (const std::bad_alloc&) {
    message = "out of memory";
  } catch (const std::exception& error) {
    message = error.what();
  }
  if (!message.empty()) {
    std::fflush(stdout);
    fmt::print(stderr, "{}: error: {}\n", program, message);
  }
  return message.empty() ? code : code == 2 ? 2 : 1;
}

}  // namespace tapegrad::apps
