#include "tapegrad/apps/cli/command_line.h"

#include <algorithm>
#include <utility>

#include "tapegrad/apps/cli/completion.h"
#include "tapegrad/apps/cli/nanogpt_names.h"
#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/version.h"

namespace tapegrad::cli {
namespace {

// Options of earlier versions, and how one writes them today.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"--rope", "--positions rotary"}, {"--unbiased-norm", "--norm unbiased"}};

// Runs `set`, whose UsageError then also says where the value is.
template <class Set>
void naming(const std::string& where, const Set& set) {
  try {
    set();
  } catch (const UsageError& error) {
    usage_error("{}: {}", where, error.what());
  }
}

}  // namespace

CommandLine::CommandLine(std::string program, const std::string& summary)
    : program_(std::move(program)), summary_(summary) {}

void CommandLine::visit(std::string_view name, const Member& member, std::string_view help,
                        const Rule& rule) {
  if (!rule.option) return;
  options_.push_back({.name = option_name(name),
                      .group = group_,
                      .help = std::string(help),
                      .placeholder = placeholder(member, rule),
                      .member = member,
                      .rule = rule});
  options_.back().rule.value = {};  // may be a view of what is gone
}

bool CommandLine::begin_section(std::string_view, std::string_view heading, Lasting) {
  group_ = heading;
  return true;
}

void CommandLine::choice(std::string_view name, std::string& value,
                         const std::vector<std::string>& choices, const std::string& help) {
  std::string all;
  for (const std::string& text : choices) all += (all.empty() ? "" : "|") + text;
  visit(name, value, help, {.value = all});
  options_.back().choices = choices;
}

void CommandLine::alias(const std::string& name, const std::string& option) {
  static_cast<void>(at(option));
  find(option)->aliases.push_back(name);
}

void CommandLine::one_value_each(const std::string& option) {
  static_cast<void>(at(option));
  find(option)->one_each = true;
}

void CommandLine::without_value(const std::string& option, const std::string& value) {
  static_cast<void>(at(option));
  find(option)->without_value = value;
}

void CommandLine::words(std::vector<std::string>& values, const std::string& placeholder,
                        const std::string& help) {
  words_ = {&values, placeholder};
  summary_ += fmt::format("\n\n{}: {}", placeholder, help);
}

void CommandLine::common(const std::string& heading, const std::vector<std::string>& options) {
  for (const std::string& option : options) static_cast<void>(at(option));
  common_.emplace_back(heading, options);
}

void CommandLine::list(const std::string& heading, const std::string& item,
                       const std::string& explanation) {
  auto it = std::find_if(lists_.begin(), lists_.end(),
                         [&](const auto& list) { return list.first == heading; });
  if (it == lists_.end()) it = lists_.insert(it, {heading, ""});
  it->second += fmt::format("  {}\n      {}\n", item, explanation);
}

std::vector<std::string> CommandLine::names() const {
  std::vector<std::string> all;
  for (const Option& option : options_) {
    all.push_back(option.name);
    if (option.is_flag() && !option.information) all.push_back(option.negative());
  }
  return all;
}

void CommandLine::fail_unknown(const std::string& name, const std::string& where) const {
  for (const auto& [old_name, option] : kRenamed) {
    if (with_hyphens(name) == old_name) usage_error("{}{} is {} now", where, name, option);
  }
  const std::string meant = meant_option(name);
  usage_error("{}unknown option {}{}", where, name,
              meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

// The option of this program that an unknown one was probably meant to be, or nothing.
std::string CommandLine::meant_option(const std::string& name) const {
  for (const std::string& option : meant_by(with_hyphens(name))) {
    if (find(option) != nullptr) return option;
  }
  return nearest(name, names());
}

const CommandLine::Option* CommandLine::find(const std::string& name) const {
  const std::string wanted = with_hyphens(name);
  const auto it = std::find_if(options_.begin(), options_.end(), [&](const Option& option) {
    return option.name == wanted ||
           (option.is_flag() && !option.information && option.negative() == wanted) ||
           std::find(option.aliases.begin(), option.aliases.end(), wanted) != option.aliases.end();
  });
  return it == options_.end() ? nullptr : &*it;
}

const CommandLine::Option& CommandLine::at(const std::string& name) const {
  const Option* option = find(name);
  check(option != nullptr, "there is no option {}", name);
  return *option;
}

bool CommandLine::given(const std::string& name) const {
  const Option& option = at(name);
  return !option.given.empty() || !option.from_file.empty();
}

bool CommandLine::gave_value(const std::string& name) const {
  return given(name) && !at(name).alone;
}

std::string CommandLine::file_of(const std::string& name) const {
  const Option& option = at(name);
  return option.given.empty() && !option.from_file.empty() ? config_ : "";
}

void CommandLine::note(const std::string& text) {
  if (text.empty() || std::count(notes_.begin(), notes_.end(), text) > 0) return;
  notes_.push_back(text);
  print_error(fmt::format("note: {}\n", text));
}

void CommandLine::set_from_file(const ConfigItem& item) {
  std::string name = option_name(item.name);
  std::vector<std::string> values = item.values;
  std::optional<NanoGPTOption> ours;
  naming(item.where, [&] { ours = of_nanogpt(name, values.empty() ? "" : values.front()); });
  if (ours) {
    note(ours->note);
    if (ours->option.empty()) return;
    name = ours->option;
    values = {ours->value};
  }
  Option* option = find(name);
  if (option == nullptr) fail_unknown(name, item.where + ": ");
  if (option->information || name == "--config") {
    usage_error("{}: {} stands on the command line only", item.where, name);
  }
  if (values.empty() || (values.size() > 1 && !option->is_list())) {
    usage_error("{}: {} needs one value, not {}", item.where, name, values.size());
  }
  option->from_file = values;
  option->place = item.where;
  if (option->is_flag() && option->name != name) {
    naming(item.where,
           [&] { option->from_file = {parse_switch(name, values.front()) ? "false" : "true"}; });
  }
}

void CommandLine::read_config() {
  if (config_read_ != config_) config_file_ = read_config_file(config_, ignored_of_nanogpt);
  config_read_ = config_;  // once: a pipe has no second reading
  for (const ConfigItem& item : config_file_.items) set_from_file(item);
}

void CommandLine::add_general_options() {
  if (std::exchange(finished_, true)) return;
  group("General");
  (*this)("config", config_,
          "read options from a file: lines such as seed = 1, a run's config.json, or a "
          "config/*.py of nanoGPT; - is stdin",
          {.value = "FILE|-"});
  (*this)("help", help_,
          common_.empty() ? "show this text" : "show this text; --help all: all options");
  (*this)("version", version_, "show the version");
  for (const char* option : {"--help", "--version"}) find(option)->information = true;
  alias("-h", "--help");
}

void CommandLine::set_given() const {
  const auto set = [](const Option& option, const std::vector<std::string>& texts) {
    const auto& choices = option.choices;
    if (!choices.empty() && std::count(choices.begin(), choices.end(), texts.back()) == 0) {
      fail_choice(option.name, texts.back(), choices);
    }
    set_from_texts(option.name, texts, option.rule, option.member);
  };
  for (const Option& option : options_) {
    if (!option.given.empty()) {
      set(option, option.given);
    } else if (!option.from_file.empty()) {
      naming(option.place, [&] { set(option, option.from_file); });
    }
  }
}

void CommandLine::parse(int argc, const char* const* argv) {
  add_general_options();
  if (is_completing()) complete(argc, argv);
  if (argc == 3 && argv[1] == std::string_view("--find")) print_found(argv[2]);
  read_arguments(argc, argv);
  for (const Option& option : options_) {
    const bool is_file = option.placeholder.starts_with("FILE") && !option.given.empty();
    if (is_file && option.given.back().empty()) {
      usage_error("{}: the file needs a name", option.name);
    }
  }
  set_values();
}

void CommandLine::take_config(const std::string& path) {
  find("--config")->given = {path};
  set_values();
}

void CommandLine::set_values() {
  try {
    if (const Option& config = at("--config"); !config.given.empty()) {
      config_ = config.given.back();
      read_config();
    }
    set_given();
  } catch (const UsageError&) {
    // Help is there for those who do not know the values.
    if (!given("--help") && !given("--version")) throw;
    help_ = given("--help"), version_ = given("--version");
  }
}

void take_model(std::string& model, std::vector<std::string>& words, const std::string& what) {
  if (!model.empty()) return;
  if (words.empty()) usage_error("--model is needed: {}", what);
  model = words.front();
  words.erase(words.begin());
}

void refuse_words(const std::vector<std::string>& words) {
  if (!words.empty()) usage_error("unexpected argument '{}'", words.front());
}

}  // namespace tapegrad::cli
