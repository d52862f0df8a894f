#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "tapegrad/base/text/number_text.h"
#include "tapegrad/data/jinja/arguments.h"
#include "tapegrad/data/jinja/functions/format_value.h"
#include "tapegrad/data/jinja/operators.h"
#include "tapegrad/data/jinja/python_text.h"

// Python's "…" % (…) and "…".format(…).

namespace tapegrad::data::jinja {
namespace {

// One conversion of "%".
std::string converted(Run& run, const Value& value, FormatSpec spec, char type) {
  const auto need_number = [&] {
    const auto number = real_of(value);
    if (!number) raise("%{} format: a real number is required, not {}", type, type_name(value));
    return *number;
  };
  // Texts stand to the right unless '-' is there.
  if (spec.align == 0) spec.align = '>';
  switch (type) {
    case 's':
      return format_string(run, str(run, value), spec);
    case 'r':
    case 'a':
      return format_string(run, repr(run, value), spec);
    case 'c':
      if (value.is_text()) return format_string(run, *value.text(), spec);
      [[fallthrough]];
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
      spec.type = type == 'i' || type == 'u' ? 'd' : type;
      if (const auto integer = integer_of(value)) return format_integer(run, *integer, spec);
      const double number = need_number();
      if (!(std::fabs(number) < 9e18)) raise("a number is too large for %{}", type);
      return format_integer(run, static_cast<std::int64_t>(number), spec);
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      spec.type = type;
      return format_real(run, need_number(), spec);
    default:
      raise("unsupported format character '{}'", type);
  }
}

}  // namespace

std::string percent_format(Run& run, std::string_view format, const Value& values) {
  const Sequence* tuple = values.sequence();
  if (tuple != nullptr && tuple->kind != SequenceKind::tuple && tuple->kind != SequenceKind::group)
    tuple = nullptr;
  std::size_t used = 0;
  const auto next = [&]() -> const Value& {
    const std::size_t count = tuple != nullptr ? tuple->items.size() : 1;
    if (used >= count) raise("not enough arguments for format string");
    ++used;
    return tuple != nullptr ? tuple->items[used - 1] : values;
  };
  std::string made;
  bool by_name = false;
  while (!format.empty()) {
    const std::size_t plain = std::min(format.find('%'), format.size());
    made += format.substr(0, plain);
    format.remove_prefix(plain);
    if (format.empty()) break;
    format.remove_prefix(1);
    FormatSpec spec;
    std::optional<Value> named;
    if (format.starts_with('(')) {
      const std::size_t end = format.find(')');
      if (end == format.npos) raise("incomplete format key");
      if (values.dict() == nullptr) raise("format requires a mapping");
      const Value* found = values.dict()->find(format.substr(1, end - 1));
      if (found == nullptr) raise("{}", repr_text(format.substr(1, end - 1)));
      named = *found;
      by_name = true;
      format.remove_prefix(end + 1);
    }
    bool left = false;
    for (; !format.empty() && std::string_view("#0- +").find(format[0]) != std::string_view::npos;
         format.remove_prefix(1)) {
      if (format[0] == '#') spec.alternate = true;
      if (format[0] == '-') left = true;
      if (format[0] == '0') spec.fill = "0";
      if (format[0] == ' ' && spec.sign != '+') spec.sign = ' ';
      if (format[0] == '+') spec.sign = '+';
    }
    if (begins_with_digit(format)) spec.width = take_count(format);
    if (format.starts_with('.')) {
      format.remove_prefix(1);
      spec.precision = begins_with_digit(format) ? take_count(format) : 0;
    }
    if (format.empty()) raise("incomplete format");
    const char type = format[0];
    format.remove_prefix(1);
    if (type == '%') {
      made += '%';
      continue;
    }
    const bool number = std::string_view("diuxXoeEfFgG").find(type) != std::string_view::npos;
    spec.align = left ? '<' : spec.fill == "0" && number ? '=' : char{0};
    if (left || !number) spec.fill = " ";
    made += converted(run, named ? *named : next(), spec, type);
  }
  const bool all_used = tuple != nullptr ? used == tuple->items.size()
                                         : used == 1 || by_name || values.dict() != nullptr ||
                                               values.sequence() != nullptr;
  if (!all_used) raise("not all arguments converted during string formatting");
  return made;
}

namespace {

// What {0.name[key]} stands for; `automatic` numbers the fields without a number.
Value field_value(Run& run, std::string_view field, const Arguments& arguments, int& automatic) {
  const std::size_t first_end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, first_end);
  field.remove_prefix(first_end);
  Value value;
  const bool numbered = !first.empty() && first.find_first_not_of("0123456789") == first.npos;
  if (first.empty() || numbered) {
    const auto at =
        numbered ? number_of<std::int64_t>(first) : std::optional<std::int64_t>(automatic++);
    if (!at || *at >= static_cast<std::int64_t>(arguments.positional.size())) {
      raise("Replacement index {} out of range for positional args tuple", at.value_or(0));
    }
    value = arguments.positional[static_cast<std::size_t>(*at)];
  } else {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& named) { return named.first == first; });
    if (found == arguments.named.end()) raise("{}", repr_text(first));
    value = found->second;
  }
  while (!field.empty()) {
    if (field[0] == '.') {
      const std::size_t end = std::min(field.find_first_of(".[", 1), field.size());
      value = attribute_of(run, value, field.substr(1, end - 1));
      field.remove_prefix(end);
    } else {
      const std::size_t end = field.find(']');
      if (field[0] != '[' || end == field.npos) raise("Missing ']' in format string");
      const std::string_view key = field.substr(1, end - 1);
      const auto index = number_of<std::int64_t>(key);
      value = item_of(run, value, index ? Value(*index) : Value(key));
      field.remove_prefix(end + 1);
    }
  }
  return value;
}

std::string brace_format(Run& run, std::string_view format, const Arguments& arguments,
                         int& automatic, int depth) {
  if (depth > 2) raise("Max string recursion exceeded");
  std::string made;
  while (!format.empty()) {
    run.step();
    const std::size_t plain = std::min(format.find_first_of("{}"), format.size());
    made += format.substr(0, plain);
    format.remove_prefix(plain);
    if (format.empty()) break;
    if (format.starts_with("{{") || format.starts_with("}}")) {
      made += format[0];
      format.remove_prefix(2);
      continue;
    }
    if (format[0] == '}') raise("Single '}}' encountered in format string");
    std::size_t end = 0;
    for (int open = 0; end < format.size(); ++end) {
      if (format[end] == '{') ++open;
      if (format[end] == '}' && --open == 0) break;
    }
    if (end == format.size()) {
      raise("{}", format.size() == 1 ? "Single '{' encountered in format string"
                                     : "expected '}' before end of string");
    }
    std::string_view field = format.substr(1, end - 1);
    format.remove_prefix(end + 1);
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : "";
    field = field.substr(0, colon);
    char conversion = 0;
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.remove_suffix(2);
    }
    Value value = field_value(run, field, arguments, automatic);
    if (conversion == 's') value = Value(str(run, value));
    if (conversion == 'r' || conversion == 'a') value = Value(repr(run, value));
    if (conversion != 0 && std::string_view("sra").find(conversion) == std::string_view::npos) {
      raise("Unknown conversion specifier {}", conversion);
    }
    made += formatted(run, value, brace_format(run, spec, arguments, automatic, depth + 1));
  }
  return made;
}

}  // namespace

std::string brace_format(Run& run, std::string_view format, const Arguments& arguments) {
  int automatic = 0;
  return brace_format(run, format, arguments, automatic, 1);
}

}  // namespace tapegrad::data::jinja
