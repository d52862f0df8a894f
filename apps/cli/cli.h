#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/base/error.h"

namespace tapegrad::apps {

// A program was called in a way that means nothing: exit code 2, where any other Error is 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void usage_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

// Runs `check_values` and turns an Error of it into a UsageError: for options that the library
// checks.
void as_usage(const std::function<void()>& check_values);

// The options of a program: GNU-style long ones, where _ counts as -. Every program has --help,
// --version and --config FILE besides its own. A config file has lines such as `batch-size = 12`
// (TOML's or INI's, as CLI11 reads them; section headings are ignored), and what stands on the
// command line goes before it.
class CommandLine {
 public:
  CommandLine(std::string program, std::string summary);

  // Options that follow stand under this heading in --help.
  void group(std::string heading);

  // An option with a value. What `value` holds now is the default that --help shows; it must
  // outlive this. T is int, int64_t, uint64_t, double, std::string, an optional of one of these, or
  // std::vector<std::string> for one or more values. `placeholder` stands for the value in --help.
  template <class T>
  void option(const std::string& name, T& value, const std::string& placeholder,
              const std::string& help, double least = -std::numeric_limits<double>::infinity()) {
    add({name, placeholder, help, default_text(value), is_list<T>,
         [&value, name, least](const std::vector<std::string>& texts) {
           parse_value(name, texts, least, value);
         }});
  }

  // An option whose value is one of `choices`.
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& choices,
              const std::string& help);

  // --name, or with `negatable` also --no-name.
  void flag(const std::string& name, bool& value, const std::string& help, bool negatable = false);

  // Arguments that belong to no option, of which there may be any number. What follows -- is one of
  // them, whatever it looks like. `values` must outlive this.
  void words(std::vector<std::string>& values, std::string placeholder, std::string help) {
    words_ = {&values, std::move(placeholder), std::move(help)};
  }

  // Shown at the end of --help, under headings in the order in which these first appear.
  void example(const std::string& command, const std::string& explanation) {
    list("Examples", command, explanation);
  }
  void list(const std::string& heading, const std::string& item, const std::string& explanation);

  // Reads the arguments, and the config file if they name one, into the values. False if all was
  // done by that: --help or --version was printed. Throws UsageError.
  [[nodiscard]] bool parse(int argc, const char* const* argv);

  // Writes the values that were given once more, for values that were set to other defaults since.
  void apply() const;

  // Whether the arguments or the config file have the option; of a flag, either form.
  bool given(const std::string& name) const;

  std::string help() const;

 private:
  template <class T>
  static constexpr bool is_list = std::is_same_v<T, std::vector<std::string>>;

  struct Option {
    std::string name, placeholder, help, default_text;
    bool list = false;
    std::function<void(const std::vector<std::string>&)> set;
    bool flag = false;
    bool negatable = false;
    std::vector<std::string> given = {};  // the values, as text
  };
  struct Group {
    std::string heading;
    std::vector<std::unique_ptr<Option>> options;
  };

  static std::string default_text(const std::string& value) { return value; }
  static std::string default_text(const std::vector<std::string>&) { return ""; }
  template <class T>
  static std::string default_text(const T& value) {
    return fmt::format("{}", value);
  }
  template <class T>
  static std::string default_text(const std::optional<T>& value) {
    return value ? default_text(*value) : "";
  }

  static void parse_value(const std::string& name, const std::string& text, double least, int& v);
  static void parse_value(const std::string& name, const std::string& text, double least,
                          int64_t& v);
  static void parse_value(const std::string& name, const std::string& text, double least,
                          uint64_t& v);
  static void parse_value(const std::string& name, const std::string& text, double least,
                          double& v);
  static void parse_value(const std::string& name, const std::string& text, double least,
                          std::string& v);
  template <class T>
  static void parse_value(const std::string& name, const std::string& text, double least,
                          std::optional<T>& v) {
    parse_value(name, text, least, v.emplace());
  }
  static void parse_value(const std::string&, const std::vector<std::string>& texts, double,
                          std::vector<std::string>& v) {
    v = texts;
  }
  template <class T>
  static void parse_value(const std::string& name, const std::vector<std::string>& texts,
                          double least, T& v) {
    parse_value(name, texts.back(), least, v);
  }

  void add(Option option);
  Option* find(std::string_view name) const;  // null if there is none
  [[noreturn]] void fail_unknown(const std::string& name, const std::string& where) const;
  std::vector<std::string> normalized(int argc, const char* const* argv);
  void parse_arguments(const std::vector<std::string>& args);
  void parse_config();

  std::string program_, summary_;
  std::vector<Group> groups_;
  std::map<std::string, Option*, std::less<>> by_name_;     // "--no-…" of flags included
  std::vector<std::pair<std::string, std::string>> lists_;  // heading, finished lines
  struct Words {
    std::vector<std::string>* values = nullptr;
    std::string placeholder, help;
  };
  Words words_;
  std::string config_;
  bool help_ = false, version_ = false;
};

// The body of a main(): what `body` returns is the exit code. An exception becomes a line on
// stderr, "train-gpt: error: …", and exit code 2 for a UsageError, otherwise 1; so does output that
// could not be written.
int run_main(const std::string& program, const std::function<int()>& body);

}  // namespace tapegrad::apps
