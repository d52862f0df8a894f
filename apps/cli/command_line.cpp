#include "tapegrad/apps/cli/command_line.h"

#include <algorithm>
#include <filesystem>

#include "tapegrad/autograd/base/file.h"

namespace tapegrad::cli {
namespace {

constexpr std::size_t kHelpColumn = 34;

// --help in the form that the documents show: "  --n-layer N    blocks [4]".
class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() { column_width(kHelpColumn); }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const bool words = app->get_option_no_throw("words") != nullptr;
    return fmt::format("\nUsage: {} [options]{}\n", name,
                       words ? " [" + app->get_option("words")->get_type_name() + "…]" : "");
  }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    if (positional) return option->get_type_name();
    std::string text;
    for (const std::string& name : option->get_lnames()) {
      if (name.find('_') == std::string::npos) text += (text.empty() ? "--" : ", --") + name;
    }
    return text;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    return type.empty() || option->get_positional() ? "" : " " + type;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string text = option->get_default_str();
    return option->get_description() + (text.empty() ? "" : " [" + text + "]");
  }
};

// TOML or INI in which headings do not matter.
class FlatConfig : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items;
    for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(input)) {
      if (item.name == "++" || item.name == "--") continue;  // where a section begins and ends
      item.parents.clear();
      items.push_back(std::move(item));
    }
    return items;
  }
};

}  // namespace

CommandLine::CommandLine(std::string program, const std::string& summary)
    : program_(std::move(program)), app_(summary, program_) {
  app_.set_help_flag();  // the flag is one of ours, since its text needs the final defaults
  app_.allow_extras();
  app_.allow_config_extras(CLI::config_extras_mode::error);
  app_.formatter(std::make_shared<HelpFormat>());
  app_.config_formatter(std::make_shared<FlatConfig>());
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

void CommandLine::words(std::vector<std::string>& values, const std::string& placeholder,
                        const std::string& help) {
  has_words_ = true;
  CLI::Option* added = app_.add_option(std::string("words"));
  added->type_name(placeholder)->expected(0, 1 << 20)->allow_extra_args();
  add({added, help, [] { return std::string(); },
       [&values](const std::vector<std::string>& texts) { values = texts; }});
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

// CLI11 takes whatever follows an option for its value. An option there is a forgotten value.
void CommandLine::check_arguments(int argc, const char* const* argv) const {
  const auto option_at = [&](int i) -> const CLI::Option* {
    const std::string_view arg = argv[i];
    return arg.starts_with("--") && arg.size() > 2 ? app_.get_option_no_throw(std::string(arg))
                                                   : nullptr;
  };
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const CLI::Option* option = option_at(i);
    if (option == nullptr || option->get_expected_max() == 0) continue;
    const std::string name = "--" + option->get_lnames().front();
    if (i + 1 == argc) usage_error("{} needs a value", name);
    if (option_at(i + 1) != nullptr) {
      usage_error("{0} needs a value (if it is to be '{1}', write {0}={1})", name, argv[i + 1]);
    }
    ++i;
  }
}

void CommandLine::parse(int argc, const char* const* argv) {
  if (!std::exchange(finished_, true)) {  // the last group in --help
    group("General");
    app_.set_config("--config", "", "")
        ->type_name("FILE")
        ->group(group_)
        ->description("read options from a file with lines such as seed = 1");
    add_information("--help", help_, "show this text");
    add_information("--version", version_, "show the version");
  }
  check_arguments(argc, argv);
  std::vector<std::string> args;
  for (int i = argc; i-- > 1;)
    args.push_back(std::string_view(argv[i]) == "-h" ? "--help" : argv[i]);
  try {
    app_.parse(args);
  } catch (const CLI::ConfigError& error) {
    std::string name = error.what();  // "INI was not able to parse NAME"
    name = name.substr(name.rfind(' ') + 1);
    fail_unknown(option_name(name), "--config: ");
  } catch (const CLI::Error& error) {
    usage_error("{}", error.what());
  }
  for (const std::string& extra : app_.remaining()) {
    if (extra == "--") continue;
    if (extra.starts_with("--") && extra.size() > 2)
      fail_unknown(extra.substr(0, extra.find('=')), "");
    usage_error("unexpected argument '{}'", extra);
  }
  for (const Option& option : options_) {
    if (option.parsed->count() > 0) option.set(option.parsed->reduced_results());
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
