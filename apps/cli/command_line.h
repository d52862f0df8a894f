#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/apps/cli/config_file.h"
#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/base/describe.h"

namespace tapegrad::cli {

// The options of a program, parsed by CLI11. They come from the tables of described structs (see
// describe.h): a member `n_layer` is the option --n-layer, which may also be written --n_layer. A
// bool is a flag that --no-… turns off. Every program has --help, --version and --config FILE; see
// config_file.h for its forms. Where both have an option, the command line's value is used. Names
// that only nanoGPT has are translated; see nanogpt_names.h.
class CommandLine {
 public:
  CommandLine(std::string program, const std::string& summary);

  // Options that follow stand under this heading in --help.
  void group(const std::string& heading) { group_ = heading; }

  // The members of a described struct become options. What they hold now is the default that --help
  // shows. The struct must live as long as this.
  template <class Options>
  void options(Options& options) {
    Options::describe(options, *this);
  }

  // One option; `name` is the member's.
  template <class T>
  void operator()(std::string_view name, T& value, const std::string& help, const Rule& rule = {}) {
    if (!rule.option) return;
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>) {
      const std::string option = option_name(name);
      add_flag(
          option, help, [&value] { return switch_text(value); },
          [&value, option](const std::vector<std::string>& texts) {
            value = parse_switch(option, texts.back());
          });
    } else {
      const std::string option = option_name(name);
      CLI::Option* added = app_.add_option(with_underscores(option));
      added->type_name(placeholder<T>(rule));
      if constexpr (kIsList<T>) {
        added->expected(1, 1 << 20);
      } else {
        added->take_last();
      }
      add({added, help, [&value] { return text_of_default(value); },
           [&value, option, rule](const std::vector<std::string>& texts) {
             parse_value(option, texts, rule, value);
           },
           kIsList<T>});
    }
  }
  template <class Part>
  void section(std::string_view, const std::string& heading, Lasting, Part& part) {
    group(heading);
    Part::describe(part, *this);
  }

  // What an option stands for without a value. Its value is the next argument only if that is a
  // whole number: a word that follows belongs to itself.
  void without_value(const std::string& option, const std::string& value);
  // An option whose value is one of a list that is known at run time only.
  void choice(std::string_view name, std::string& value, const std::vector<std::string>& choices,
              const std::string& help);
  // Any number of arguments that belong to no option. All arguments after -- are of this kind.
  void words(std::vector<std::string>& values, const std::string& placeholder,
             const std::string& help);

  // Shown at the end of --help, under headings in the order in which these first appear.
  void example(const std::string& command, const std::string& explanation) {
    list("Examples", command, explanation);
  }
  void list(const std::string& heading, const std::string& item, const std::string& explanation);

  // Reads the arguments, and the config file if they name one, into the values. May be called
  // again after the values were given other defaults. Throws UsageError.
  void parse(int argc, const char* const* argv);
  // Prints --help or --version if one of them was asked for, and tells whether.
  [[nodiscard]] bool printed_information();
  // For programs without presets: both of the above.
  [[nodiscard]] bool parse_or_print(int argc, const char* const* argv) {
    parse(argc, argv);
    return printed_information();
  }

  // Whether the arguments or the config file have the option (named as on the command line).
  bool given(const std::string& option) const;
  // Whether it is given with a value of its own: see without_value().
  bool gave_value(const std::string& option) const;
  // The config file that the value of an option is of; "" if it is none of its own or an
  // argument's.
  std::string file_of(const std::string& option) const;

 private:
  struct Option {
    CLI::Option* parsed;
    std::string help;
    std::function<std::string()> default_text;
    std::function<void(const std::vector<std::string>&)> set;
    bool list = false;
    std::string without_value = {};           // "": it needs one
    bool alone = false;                       // its last argument was without a value
    std::vector<std::string> from_file = {};  // values that the config file has for it
    std::string place = {};                   // and where: "--config FILE, line 3"
  };
  struct Words {
    std::vector<std::string>* values = nullptr;  // null: the program takes none
    std::string placeholder;
  };
  class HelpFormat;

  void add(Option option);
  void add_flag(const std::string& option, const std::string& help,
                std::function<std::string()> default_text,
                std::function<void(const std::vector<std::string>&)> set);
  void add_information(const std::string& option, bool& value, const std::string& help);
  void add_general_options();
  Option* find(const std::string& name);  // "--n_layer" or "--no-bias", too; null if there is none
  std::vector<std::string> options_among(int argc, const char* const* argv);
  bool takes_nanogpt(const std::string& arg, std::vector<std::string>& args);
  void read_config();
  void set_from_file(const ConfigItem& item);
  void note(const std::string& text);
  void set_values();
  [[noreturn]] void fail_unknown(const std::string& name, const std::string& where) const;
  std::vector<std::string> names() const;  // of all options, as on the command line

  std::string program_, group_ = "Options";
  CLI::App app_;
  std::vector<Option> options_;
  std::vector<std::pair<std::string, std::string>> lists_;  // heading, finished lines
  Words words_;
  std::string config_;
  std::vector<std::string> notes_;  // on names of nanoGPT, each printed once
  bool help_ = false, version_ = false, finished_ = false;
};

}  // namespace tapegrad::cli
