#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/apps/cli/config_file.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/option_schema.h"

namespace tapegrad::cli {

// The options of a program. They come from the tables of described structs (see option_schema.h): a
// member `n_layer` is the option --n-layer, which may also be written --n_layer. A bool is a flag
// that --no-… turns off. Every program has --help, --version and --config FILE; see config_file.h
// for its forms. `--help all` shows all options where --help shows those that are used most, and
// `--find WORDS`, alone, those that are about something: `tapegrad help` asks all commands so.
// Where both have an option, the command line's value is used. Names that only nanoGPT has are
// translated; see nanogpt_names.h.
class CommandLine : public OptionTable {
 public:
  CommandLine(std::string program, const std::string& summary);

  // Options that follow stand under this heading in --help.
  void group(const std::string& heading) { group_ = heading; }

  // The members of a described struct become options. What they hold now is the default that --help
  // shows. The struct must live as long as this. One option alone: cli("name", member, help, rule).
  void options(OptionSchema options) { options.describe(*this); }

  // Another name of an option: alias("-m", "--model").
  void alias(const std::string& name, const std::string& option);
  // A list of which each option adds one value: --prompt A --prompt B.
  void one_value_each(const std::string& option);
  // The value of an option that is given without one. A value is the next argument only if that is
  // a whole number, or one of an enum's names: another word that follows belongs to itself.
  void without_value(const std::string& option, const std::string& value);
  // An option whose value is one of a list that is known at run time only.
  void choice(std::string_view name, std::string& value, const std::vector<std::string>& choices,
              const std::string& help);
  // Any number of arguments that belong to no option. All arguments after -- are of this kind.
  void words(std::vector<std::string>& values, const std::string& placeholder,
             const std::string& help);

  // The options that --help shows, under this heading; all others need `--help all`. A program that
  // names none shows all. An option whose help begins with "NAME: " is shown, too, where NAME was
  // chosen: --optimizer muon --help has Muon's own.
  void common(const std::string& heading, const std::vector<std::string>& options);

  // Shown at the end of --help, under headings in the order in which these first appear.
  void example(const std::string& command, const std::string& explanation) {
    list("Examples", command, explanation);
  }
  void list(const std::string& heading, const std::string& item, const std::string& explanation);

  // Reads the arguments, and the config file if they name one, into the values. Throws UsageError.
  void parse(int argc, const char* const* argv);
  // Sets again the values that were given, after all were given other defaults.
  void set_values();
  // As if the arguments had named this config file.
  void take_config(const std::string& path);
  // Prints --help or --version if one of them was asked for, and tells whether.
  [[nodiscard]] bool printed_information() const;
  // For programs without presets: both of the above.
  [[nodiscard]] bool parse_or_print(int argc, const char* const* argv) {
    parse(argc, argv);
    return printed_information();
  }

  // True if the arguments or the config file have the option (named as on the command line).
  bool given(const std::string& option) const;
  // True if it is given with a value of its own: see without_value().
  bool gave_value(const std::string& option) const;
  // The config file that set this option; empty if none.
  std::string file_of(const std::string& option) const;
  // The format that the config file names, as a run's does; empty if it names none.
  const std::string& config_format() const { return config_file_.format; }

 private:
  struct Option {
    std::string name;  // "--n-layer"
    std::string group, help, placeholder;
    Member member;
    Rule rule = {};
    bool information = false;               // --help: cannot be turned off
    bool one_each = false;                  // a list, whose next values need an option each
    std::vector<std::string> choices = {};  // known at run time only
    std::vector<std::string> aliases = {};
    std::string without_value = {};           // "": it needs one
    bool alone = false;                       // its last argument was without a value
    std::vector<std::string> given = {};      // values that the arguments have for it
    std::vector<std::string> from_file = {};  // values that the config file has for it
    std::string place = {};                   // and where: "--config FILE, line 3"

    bool is_flag() const { return member.type() == Member::Type::boolean; }
    bool is_list() const { return member.type() == Member::Type::texts; }
    std::string negative() const { return "--no" + name.substr(1); }
    std::string shown_names() const;
  };
  struct Words {
    std::vector<std::string>* values = nullptr;  // null: the program takes none
    std::string placeholder;
  };

  void visit(std::string_view name, const Member& member, std::string_view help,
             const Rule& rule) override;
  bool begin_section(std::string_view, std::string_view heading, Lasting) override;
  void add_general_options();
  const Option* find(const std::string& name) const;  // "--n_layer", "--no-bias"; null: none
  Option* find(const std::string& name) {
    return const_cast<Option*>(std::as_const(*this).find(name));
  }
  const Option& at(const std::string& name) const;
  void read_arguments(int argc, const char* const* argv);
  int read_option(int i, int argc, const char* const* argv);
  bool is_known(std::string_view arg) const;  // an option of this program, "-n=5" included
  [[noreturn]] void fail_dash(const std::string& arg) const;
  bool takes_nanogpt(const std::string& arg);
  void read_config();
  void set_from_file(const ConfigItem& item);
  void note(const std::string& text);
  void set_given() const;
  std::string help_text() const;
  std::string common_help() const;
  std::string list_of_options(std::string_view heading, const std::vector<const Option*>& options,
                              bool whole) const;
  std::vector<const Option*> chosen_options() const;
  [[noreturn]] void print_found(std::string_view words) const;
  [[noreturn]] void complete(int argc, const char* const* argv) const;
  [[noreturn]] void fail_unknown(const std::string& name, const std::string& where) const;
  std::string meant_option(const std::string& name) const;
  std::vector<std::string> names() const;  // of all options, as on the command line

  std::string program_, summary_, group_ = "Options";
  std::vector<Option> options_;
  std::vector<std::pair<std::string, std::string>> lists_;                // heading, finished lines
  std::vector<std::pair<std::string, std::vector<std::string>>> common_;  // heading, options
  Words words_;
  std::string config_;
  std::optional<std::string> config_read_;  // the file that config_file_ was read from
  ConfigFile config_file_;
  std::vector<std::string> notes_;  // on names of nanoGPT, each printed once
  bool help_ = false, all_help_ = false, version_ = false, finished_ = false;
};

// Habits of all commands: the first word is the model if --model is not given. UsageError, which
// says `what` is needed, if there is none.
void take_model(std::string& model, std::vector<std::string>& words,
                const std::string& what = "a run folder, or a model of another program");
// UsageError if a word is left.
void refuse_words(const std::vector<std::string>& words);

}  // namespace tapegrad::cli
