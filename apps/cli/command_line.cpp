#include "tapegrad/apps/cli/command_line.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tapegrad/apps/cli/nanogpt_names.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::cli {
namespace {

constexpr std::size_t kHelpColumn = 34;

bool is_option(std::string_view arg) { return arg.starts_with("--") && arg.size() > 2; }

bool is_whole_number(std::string_view arg) {
  return !arg.empty() && arg.find_first_not_of("0123456789") == arg.npos;
}

}  // namespace

// --help in the form that the documents show: "  --n-layer N    blocks [4]".
class CommandLine::HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(const Words& words) : words_(words) { column_width(kHelpColumn); }
  std::string make_usage(const CLI::App*, std::string name) const override {
    return fmt::format("\nUsage: {} [options]{}\n", name,
                       words_.values == nullptr ? "" : " [" + words_.placeholder + "…]");
  }
  std::string make_option_name(const CLI::Option* option, bool) const override {
    std::string text;
    for (const std::string& name : option->get_lnames()) {
      if (name.find('_') == std::string::npos) text += (text.empty() ? "--" : ", --") + name;
    }
    return text;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    return type.empty() ? "" : " " + type;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string text = option->get_default_str();
    return option->get_description() + (text.empty() ? "" : " [" + text + "]");
  }

 private:
  const Words& words_;
};

CommandLine::CommandLine(std::string program, const std::string& summary)
    : program_(std::move(program)), app_(summary, program_) {
  app_.set_help_flag();  // the flag is one of ours, since its text needs the final defaults
  app_.formatter(std::make_shared<HelpFormat>(words_));
}

void CommandLine::add(Option option) {
  option.parsed->description(option.help)->group(group_);
  options_.push_back(std::move(option));
}

void CommandLine::add_flag(const std::string& option, const std::string& help,
                           std::function<std::string()> default_text,
                           std::function<void(const std::vector<std::string>&)> set) {
  std::string negative = with_underscores("--no" + option.substr(1));
  if (const std::size_t comma = negative.find(','); comma != negative.npos) {
    negative.insert(comma + 1, "!");
  }
  CLI::Option* added = app_.add_flag(with_underscores(option) + ",!" + negative);
  add({added, help, std::move(default_text), std::move(set)});
}

// A flag that cannot be turned off: --help.
void CommandLine::add_information(const std::string& option, bool& value, const std::string& help) {
  add({app_.add_flag(option), help, [] { return std::string(); },
       [&value](const std::vector<std::string>&) { value = true; }});
}

void CommandLine::choice(std::string_view name, std::string& value,
                         const std::vector<std::string>& choices, const std::string& help) {
  const std::string option = option_name(name);
  CLI::Option* added = app_.add_option(with_underscores(option));
  added->type_name(fmt::format("{}", fmt::join(choices, "|")))->take_last();
  add({added, help, [&value] { return value; },
       [&value, option, choices](const std::vector<std::string>& texts) {
         const std::string& text = texts.back();
         if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
           fail_choice(option, text, choices);
         }
         value = text;
       }});
}

void CommandLine::without_value(const std::string& name, const std::string& value) {
  Option* option = find(name);
  check(option != nullptr, "there is no option {}", name);
  option->without_value = value;
}

void CommandLine::words(std::vector<std::string>& values, const std::string& placeholder,
                        const std::string& help) {
  words_ = {&values, placeholder};
  app_.description(fmt::format("{}\n\n{}: {}", app_.get_description(), placeholder, help));
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
  for (const CLI::Option* option : app_.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (name.find('_') == std::string::npos) all.push_back("--" + name);
    }
  }
  return all;
}

void CommandLine::fail_unknown(const std::string& name, const std::string& where) const {
  const std::string meant = nearest(name, names());
  usage_error("{}unknown option {}{}", where, name,
              meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

CommandLine::Option* CommandLine::find(const std::string& name) {
  const CLI::Option* parsed = app_.get_option_no_throw(name);
  const auto it = std::find_if(options_.begin(), options_.end(),
                               [&](const Option& option) { return option.parsed == parsed; });
  return it == options_.end() ? nullptr : &*it;
}

bool CommandLine::given(const std::string& name) const {
  const Option* option = const_cast<CommandLine*>(this)->find(name);
  check(option != nullptr, "there is no option {}", name);
  return option->parsed->count() > 0 || !option->from_file.empty();
}

bool CommandLine::gave_value(const std::string& name) const {
  return given(name) && !const_cast<CommandLine*>(this)->find(name)->alone;
}

std::string CommandLine::file_of(const std::string& name) const {
  const Option* option = const_cast<CommandLine*>(this)->find(name);
  check(option != nullptr, "there is no option {}", name);
  return option->parsed->count() > 0 || option->from_file.empty() ? "" : config_;
}

// The arguments that are options, and their values, each an argument of its own; the others are
// words. CLI11 by itself takes --x= for an --x without a value, whose value is then the next
// argument, whatever that is.
std::vector<std::string> CommandLine::options_among(int argc, const char* const* argv) {
  std::vector<std::string> args, words;
  bool only_words = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i], name = arg.substr(0, arg.find('='));
    if (!only_words && arg == "--") {
      only_words = true;
    } else if (!only_words && is_option(arg)) {
      Option* option = find(name);
      if ((option == nullptr || name != arg) && takes_nanogpt(arg, args)) continue;
      if (option == nullptr) fail_unknown(name, "");
      args.push_back(name == arg || option->parsed->get_expected_max() > 0 ? name : arg);
      if (option->parsed->get_expected_max() == 0) continue;
      option->alone = name == arg && !option->without_value.empty() &&
                      (i + 1 == argc || !is_whole_number(argv[i + 1]));
      if (name != arg) {
        args.push_back(arg.substr(name.size() + 1));
        continue;
      }
      if (option->alone) {
        args.push_back(option->without_value);
        continue;
      }
      if (i + 1 == argc) usage_error("{} needs a value", name);
      if (const std::string next = argv[i + 1]; is_option(next) && find(next) != nullptr) {
        usage_error("{0} needs a value (if it is to be '{1}', write {0}={1})", name, next);
      }
      do {
        args.push_back(argv[++i]);
      } while (option->list && i + 1 < argc && !std::string_view(argv[i + 1]).starts_with("--"));
    } else if (!only_words && arg == "-h") {
      args.push_back("--help");
    } else if (words_.values != nullptr) {
      words.push_back(arg);
    } else {
      usage_error("unexpected argument '{}'", arg);
    }
  }
  if (words_.values != nullptr) *words_.values = words;
  return args;
}

// An option that only nanoGPT has, NAME=VALUE as there, becomes ours.
bool CommandLine::takes_nanogpt(const std::string& arg, std::vector<std::string>& args) {
  const std::size_t equals = arg.find('=');
  const std::string name = option_name(arg.substr(2, equals - 2));
  std::optional<std::string> value;
  if (equals != arg.npos) value = arg.substr(equals + 1);
  const auto ours = of_nanogpt(name, value);
  if (!ours || (!ours->option.empty() && find(ours->option) == nullptr)) return false;
  note(ours->note);
  if (!ours->option.empty()) args.insert(args.end(), {ours->option, ours->value});
  return true;
}

void CommandLine::note(const std::string& text) {
  if (text.empty() || std::count(notes_.begin(), notes_.end(), text) > 0) return;
  notes_.push_back(text);
  print_error(fmt::format("note: {}\n", text));
}

namespace {

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
  const bool general = name == "--help" || name == "--version" || name == "--config";
  if (option == nullptr || general) fail_unknown(name, item.where + ": ");
  if (values.empty() || (values.size() > 1 && !option->list)) {
    usage_error("{}: {} needs one value, not {}", item.where, name, values.size());
  }
  option->from_file = values;
  option->place = item.where;
  if (name.starts_with("--no-") && "--" + option->parsed->get_lnames().front() != name) {
    naming(item.where,
           [&] { option->from_file = {parse_switch(name, values.front()) ? "false" : "true"}; });
  }
}

void CommandLine::read_config() {
  for (const ConfigItem& item : read_config_file(config_, ignored_of_nanogpt)) set_from_file(item);
}

void CommandLine::add_general_options() {
  if (std::exchange(finished_, true)) return;
  group("General");
  (*this)("config", config_,
          "read options from a file: lines such as seed = 1, a run's config.json, or a "
          "config/*.py of nanoGPT",
          {.value = "FILE"});
  add_information("--help", help_, "show this text");
  add_information("--version", version_, "show the version");
}

void CommandLine::set_values() {
  for (const Option& option : options_) {
    if (option.parsed->count() > 0) {
      option.set(option.parsed->reduced_results());
    } else if (!option.from_file.empty()) {
      naming(option.place, [&] { option.set(option.from_file); });
    }
  }
}

void CommandLine::parse(int argc, const char* const* argv) {
  add_general_options();
  std::vector<std::string> args = options_among(argc, argv);
  std::reverse(args.begin(), args.end());  // which is how CLI11 takes them
  try {
    app_.parse(args);
  } catch (const CLI::Error& error) {
    usage_error("{}", error.what());
  }
  help_ = given("--help"), version_ = given("--version");
  try {
    if (given("--config")) {
      config_ = find("--config")->parsed->reduced_results().back();
      read_config();
    }
    set_values();
  } catch (const UsageError&) {
    if (!help_ && !version_) throw;  // help is there for those who do not know the values
  }
}

bool CommandLine::printed_information() {
  if (version_) {
    fmt::print("{} (tapegrad) {}\n", program_, TAPEGRAD_VERSION);
  } else if (help_) {
    for (const Option& option : options_) option.parsed->default_str(option.default_text());
    std::string text = app_.help();
    // CLI11 puts two empty lines between groups.
    for (std::size_t at; (at = text.find("\n\n\n")) != text.npos;) text.erase(at, 1);
    while (text.ends_with("\n\n")) text.pop_back();
    fmt::print("{}", text);
    for (const auto& [heading, lines] : lists_) fmt::print("\n{}:\n{}", heading, lines);
  }
  return version_ || help_;
}

}  // namespace tapegrad::cli
