#include "tapegrad/data/jinja/internal/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/jinja/internal/characters.h"

namespace tapegrad::data::jinja {
namespace {

class Repr {
 public:
  explicit Repr(Run& run) : run_(run) {}

  void add(const Value& value) {
    run_.step();
    if (const String* text = value.text()) {
      made_ += repr_text(*text);
    } else if (const Sequence* items = value.sequence()) {
      add_items(*items);
    } else if (const Dict* dict = value.dict()) {
      add_bytes("{");
      for (const auto& [key, member] : dict->members) {
        if (&key != &dict->members.front().first) add_bytes(", ");
        add(key);
        add_bytes(": ");
        add(member);
      }
      add_bytes("}");
    } else if (value.is_undefined()) {
      add_bytes("Undefined");
    } else {
      add_bytes(str(run_, value));
    }
  }
  String take() { return std::move(made_); }

 private:
  void add_bytes(std::string_view bytes) {
    count_steps(1);
    made_ += bytes;
  }
  void add_items(const Sequence& sequence) {
    const bool tuple = sequence.kind == SequenceKind::tuple;
    switch (sequence.kind) {
      case SequenceKind::iterator:
        return add_bytes("<generator object>");
      case SequenceKind::range:
        return add_range(sequence);
      case SequenceKind::keys:
        add_bytes("dict_keys([");
        break;
      case SequenceKind::values:
        add_bytes("dict_values([");
        break;
      case SequenceKind::items:
        add_bytes("dict_items([");
        break;
      default:
        add_bytes(tuple ? "(" : "[");
        break;
    }
    for (const Value& item : sequence.items) {
      if (&item != &sequence.items.front()) add_bytes(", ");
      add(item);
    }
    if (tuple) {
      add_bytes(sequence.items.size() == 1 ? ",)" : ")");
    } else {
      add_bytes(sequence.kind == SequenceKind::list ? "]" : "])");
    }
  }
  void add_range(const Sequence& range) {
    const auto at = [&](std::size_t i) { return *range.items[i].integer(); };
    const std::size_t count = range.items.size();
    const std::int64_t begin = count == 0 ? 0 : at(0), step = count < 2 ? 1 : at(1) - at(0);
    const std::int64_t end = count == 0 ? 0 : at(count - 1) + (step > 0 ? 1 : -1);
    add_bytes(step == 1 ? formatted("range({}, {})", begin, end)
                        : formatted("range({}, {}, {})", begin, end, step));
  }

  Run& run_;
  String made_;
};

String json_string(std::string_view text, bool ascii) {
  count_reading(text);
  String made = "\"";
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    const std::string_view bytes = text.substr(0, c.size);
    text.remove_prefix(c.size);
    const auto unit = [&](unsigned value) { made += formatted("\\u{:04x}", value); };
    switch (c.code_point) {
      case '"':
        made += "\\\"";
        continue;
      case '\\':
        made += "\\\\";
        continue;
      case '\n':
        made += "\\n";
        continue;
      case '\r':
        made += "\\r";
        continue;
      case '\t':
        made += "\\t";
        continue;
      case '\b':
        made += "\\b";
        continue;
      case '\f':
        made += "\\f";
        continue;
      default:
        break;
    }
    const auto code = static_cast<unsigned>(c.code_point);
    if (code < 0x20 || (ascii && code >= 0x7F && code < 0x10000)) {
      if (code == 0x7F) {
        made += bytes;
      } else {
        unit(code);
      }
    } else if (ascii && code >= 0x10000) {
      unit(0xD800 + ((code - 0x10000) >> 10));
      unit(0xDC00 + ((code - 0x10000) & 0x3FF));
    } else {
      made += bytes;
    }
  }
  return made + '"';
}

class JsonPrinter {
 public:
  JsonPrinter(Run& run, const JsonStyle& style) : run_(run), style_(style) {}

  void add(const Value& value, int level) {
    run_.step();
    if (value.is_none()) return add_bytes("null");
    if (const bool* held = value.boolean()) return add_bytes(*held ? "true" : "false");
    if (const std::int64_t* number = value.integer()) return add_bytes(formatted("{}", *number));
    if (const double* number = value.real()) return add_bytes(json_real(*number));
    if (const String* text = value.text()) return add_text(*text);
    if (const Sequence* items = value.sequence()) {
      if (items->kind <= SequenceKind::tuple) return add_items(items->items, level);
    }
    if (const Dict* dict = value.dict()) return add_members(*dict, level);
    raise("Object of type {} is not JSON serializable", type_name(value));
  }
  String take() { return std::move(made_); }

 private:
  static String json_real(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return repr_real(number);
  }
  static String key_text(const Value& key) {
    if (const String* text = key.text()) return *text;
    if (key.is_none()) return "null";
    if (const bool* held = key.boolean()) return *held ? "true" : "false";
    if (const std::int64_t* number = key.integer()) return formatted("{}", *number);
    if (const double* number = key.real()) return json_real(*number);
    raise("keys must be str, int, float, bool or None, not {}", type_name(key));
  }

  void add_bytes(std::string_view bytes) {
    count_steps(1);
    made_ += bytes;
  }
  void add_text(std::string_view text) { made_ += json_string(text, style_.ascii); }
  void line(int level) {
    if (!style_.indent) return;
    add_bytes("\n");
    for (int i = 0; i < level; ++i) add_bytes(*style_.indent);
  }
  void add_items(const Values& items, int level) {
    if (items.empty()) return add_bytes("[]");
    add_bytes("[");
    for (const Value& item : items) {
      if (&item != &items.front()) add_bytes(style_.item_separator);
      line(level + 1);
      add(item, level + 1);
    }
    line(level);
    add_bytes("]");
  }
  void add_members(const Dict& dict, int level) {
    if (dict.members.empty()) return add_bytes("{}");
    Vector<std::pair<String, const Value*>> members;
    for (const auto& [key, value] : dict.members) members.emplace_back(key_text(key), &value);
    if (style_.sort_keys) {
      std::stable_sort(members.begin(), members.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    add_bytes("{");
    bool first = true;
    for (const auto& [key, value] : members) {
      if (!first) add_bytes(style_.item_separator);
      first = false;
      line(level + 1);
      add_text(key);
      add_bytes(style_.key_separator);
      add(*value, level + 1);
    }
    line(level);
    add_bytes("}");
  }

  Run& run_;
  const JsonStyle& style_;
  String made_;
};

}  // namespace

String repr_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  String text = formatted("{}", number);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

String repr_text(std::string_view text) {
  count_reading(text);
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  String made(1, quote);
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    const std::string_view bytes = text.substr(0, c.size);
    text.remove_prefix(c.size);
    const auto code = static_cast<unsigned>(c.code_point);
    if (bytes == "\\" || (bytes.size() == 1 && bytes[0] == quote)) {
      made += '\\';
      made += bytes;
    } else if (bytes == "\n") {
      made += "\\n";
    } else if (bytes == "\r") {
      made += "\\r";
    } else if (bytes == "\t") {
      made += "\\t";
    } else if (is_printable(c.code_point)) {
      made += bytes;
    } else {
      made += code < 0x100     ? formatted("\\x{:02x}", code)
              : code < 0x10000 ? formatted("\\u{:04x}", code)
                               : formatted("\\U{:08x}", code);
    }
  }
  return made + quote;
}

String str(Run& run, const Value& value) {
  if (const String* text = value.text()) return *text;
  if (value.is_none()) return "None";
  if (const Undefined* undefined = value.undefined()) {
    if (run.strict()) raise(*undefined);
    return "";
  }
  if (const bool* held = value.boolean()) return *held ? "True" : "False";
  if (const std::int64_t* number = value.integer()) return formatted("{}", *number);
  if (const double* number = value.real()) return repr_real(*number);
  if (const Object* object = value.object()) return object->repr();
  return repr(run, value);
}

String repr(Run& run, const Value& value) {
  Repr printer(run);
  printer.add(value);
  return printer.take();
}

String escaped(Run& run, const Value& value) {
  const String text = str(run, value);
  if (value.is_markup()) return text;
  count_reading(text);
  String made;
  for (const char c : text) {
    switch (c) {
      case '&':
        made += "&amp;";
        break;
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      case '\'':
        made += "&#39;";
        break;
      case '"':
        made += "&#34;";
        break;
      default:
        made += c;
    }
  }
  return made;
}

String json_dumps(Run& run, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(run, style);
  printer.add(value, 0);
  return printer.take();
}

}  // namespace tapegrad::data::jinja
