#include "tapegrad/apps/cli/config_file.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/run/folder/internal/config_json.h"

namespace tapegrad::cli {
namespace {

constexpr std::int64_t kMostConfigBytes = 1 << 20;
constexpr std::string_view kSpace = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

// The lines of a file, and the place in them.
class LineReader {
 public:
  LineReader(std::string path, std::string text, bool (*ignored)(const std::string&))
      : path_(std::move(path)), text_(std::move(text)), ignored_(ignored) {}

  std::vector<ConfigItem> read() {
    while (!rest_is_empty()) read_line();
    return std::move(items_);
  }

 private:
  // Names the line that was begun last.
  std::string where() const { return fmt::format("--config {}, line {}", path_, number_); }

  bool rest_is_empty() const { return at_ >= text_.size(); }

  std::string_view next_line() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = trimmed(std::string_view(text_).substr(at_, end - at_));
    at_ = end + 1;
    ++number_;
    return line;
  }

  void read_line() {
    const std::string_view line = next_line();
    if (line.empty() || line[0] == '#' || line[0] == ';') return;
    if (line.starts_with("import ") || line.starts_with("from ")) return;
    if (line.starts_with("\"\"\"") || line.starts_with("'''")) return skip_text(line);
    if (line[0] == '[') return check_heading(line);
    const std::size_t equals = line.find('=');
    const std::string name(trimmed(line.substr(0, equals)));
    if (equals == line.npos || !is_name(name)) {
      usage_error("{}: '{}' is not of the form NAME = VALUE", where(), line);
    }
    ConfigItem item{name, {}, where()};
    if (!ignored_(name)) read_value(line.substr(equals + 1), item);
    items_.push_back(std::move(item));
  }

  void check_heading(std::string_view line) const {
    const std::size_t end = line.find(']');
    const std::string_view rest = end == line.npos ? line : trimmed(line.substr(end + 1));
    const bool good = end != line.npos && end > 1 && (rest.empty() || rest[0] == '#');
    if (!good) usage_error("{}: '{}' is not a heading such as [model]", where(), line);
  }

  void skip_text(std::string_view line) {
    const std::string quotes(line.substr(0, 3));
    const std::string place = where();
    for (line.remove_prefix(3); line.find(quotes) == line.npos; line = next_line()) {
      if (rest_is_empty()) usage_error("{}: a text that begins here does not end", place);
    }
  }

  void read_value(std::string_view text, ConfigItem& item) {
    text = trimmed(text);
    if (text.starts_with('[')) {
      text = trimmed(read_list(text.substr(1), item.values));
    } else {
      item.values.push_back(read_one(text, ""));
      text = trimmed(text);
    }
    if (!text.empty() && text[0] != '#') {
      usage_error("{}: '{}' follows the value of {}", where(), text, item.name);
    }
  }

  // The elements up to the bracket, perhaps on later lines. Returns what follows it.
  std::string_view read_list(std::string_view text, std::vector<std::string>& values) {
    const std::string place = where();
    for (bool value_may_follow = true;;) {
      text = trimmed(text);
      if (text.empty() || text[0] == '#') {
        if (rest_is_empty()) usage_error("{}: a list that begins here has no ]", place);
        text = next_line();
      } else if (text[0] == ']') {
        return text.substr(1);
      } else if (text[0] == ',' && !value_may_follow) {
        text.remove_prefix(1);
        value_may_follow = true;
      } else {
        if (!value_may_follow) usage_error("{}: a comma is missing before '{}'", where(), text);
        values.push_back(read_one(text, ",]"));
        value_may_follow = false;
      }
    }
  }

  // A text in quotes, or up to one of `ends` or a comment; it is removed from the text.
  std::string read_one(std::string_view& text, std::string_view ends) {
    if (!text.empty() && (text[0] == '"' || text[0] == '\'')) return read_quoted(text);
    const std::size_t end =
        text.starts_with('#')
            ? 0
            : std::min({text.find_first_of(ends), text.find(" #"), text.find("\t#"), text.size()});
    const std::string_view value = trimmed(text.substr(0, end));
    text.remove_prefix(end);
    if (value.empty()) usage_error("{}: a value is missing", where());
    return product_of(value).value_or(std::string(value));
  }

  std::string read_quoted(std::string_view& text) {
    const char quote = text[0];
    std::string value;
    std::size_t i = 1;
    for (; i < text.size() && text[i] != quote; ++i) {
      // In single quotes, TOML takes a backslash as it is, and Python does not.
      if (text[i] != '\\' || quote == '\'') {
        value += text[i];
        continue;
      }
      const char next = ++i < text.size() ? text[i] : '\0';
      const std::size_t known = std::string_view("nt\"\\").find(next);
      if (next == '\0' || known == std::string_view::npos) {
        usage_error("{}: \\{} in quotes is none of \\n, \\t, \\\" and \\\\", where(), next);
      }
      value += "\n\t\"\\"[known];
    }
    if (i >= text.size()) usage_error("{}: a text in quotes does not end: {}", where(), text);
    text = trimmed(text.substr(i + 1));
    return value;
  }

  // "40" of "5 * 8".
  static std::optional<std::string> product_of(std::string_view text) {
    std::int64_t product = 1;
    bool several = false;
    for (;;) {
      const std::size_t star = text.find('*');
      const std::string_view factor = trimmed(text.substr(0, star));
      const auto number = number_of<std::int64_t>(factor);
      if (!number || __builtin_mul_overflow(product, *number, &product)) return std::nullopt;
      if (star == text.npos) break;
      several = true;
      text.remove_prefix(star + 1);
    }
    return several ? std::optional(std::to_string(product)) : std::nullopt;
  }

  std::string path_, text_;
  bool (*ignored_)(const std::string&);
  std::size_t at_ = 0;
  std::int64_t number_ = 0;
  std::vector<ConfigItem> items_;
};

std::string text_of(const Json& json) {
  return run::is_text(json) ? run::text_of_json(json) : json_text(json);
}

// Facts that a config.json has of a run beside its options.
bool is_fact(const std::string& name) {
  constexpr std::string_view facts[] = {
      "format",         "version",     "text",         "val_text", "vocab_size",
      "schedule_begin", "most_warmup", "started_from", "base",     "teacher_base"};
  return std::count(std::begin(facts), std::end(facts), name) > 0;
}

ConfigFile read_run_config(const std::string& path, const Json& json) {
  ConfigFile file;
  const auto format = json.find("format");
  if (format != json.end() && format->is_string()) file.format = format->get<std::string>();
  const auto add = [&](const std::string& name, const Json& value) {
    if (value.is_null()) return;  // an option that was not given
    ConfigItem item{name, {}, "--config " + path};
    if (value.is_array()) {
      for (const Json& element : value) item.values.push_back(text_of(element));
      if (item.values.empty()) return;
    } else {
      item.values.push_back(text_of(value));
    }
    file.items.push_back(std::move(item));
  };
  const Json data = json.value("data", Json());
  const bool gives_length = data.is_object() && data.contains("block_size");
  for (const auto& [name, value] : json.items()) {
    if (is_fact(name)) continue;
    if (!value.is_object()) usage_error("--config {}: '{}' must be an object", path, name);
    for (const auto& [inner, inner_value] : value.items()) {
      // The option is the length in training, which stands with the text.
      const bool is_other = inner == "block_size" && name == "model" && gives_length;
      if (!is_fact(inner) && !is_other) add(inner, inner_value);
    }
  }
  return file;
}

}  // namespace

bool is_nanogpt_config(const std::string& path) {
  if (!path.ends_with(".py")) return false;
  try {
    const std::string text = "\n" + read_file(path, kMostConfigBytes);
    return text.find(" = ") != text.npos && text.find("\ndef ") == text.npos &&
           text.find("\nclass ") == text.npos;
  } catch (const Error&) {
    return false;
  }
}

ConfigFile read_config_file(const std::string& path, bool (*ignored)(const std::string&)) {
  try {
    std::string text =
        path == "-" ? read_stdin(kMostConfigBytes) : read_file(path, kMostConfigBytes);
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
    check(text.find('\0') == text.npos, "{}: there is a NUL in it: this is not text", path);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != text.npos && text[first] == '{') {
      return read_run_config(path, parse_json_object(path, text));
    }
    return {.items = LineReader(path, std::move(text), ignored).read()};
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    usage_error("--config: {}", error.what());
  }
}

}  // namespace tapegrad::cli
