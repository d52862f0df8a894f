#include "tapegrad/apps/serve/api/fields/fields.h"

#include <algorithm>
#include <utility>

namespace tapegrad::serve {
namespace {

constexpr int kRuleDepth = 4;  // of JSON in field_rules()

}  // namespace

Fields::Fields(const Json& object, FieldPlace place, IgnoredFields& ignored, std::string path)
    : object_(object), ignored_(ignored), path_(std::move(path)) {
  if (!object.is_object()) {
    throw Refused({.message = path_.empty() ? "the body must be a JSON object"
                                            : "'" + path_ + "' must be an object",
                   .param = path_,
                   .code = "invalid_type"});
  }
  for (const FieldRule& rule : field_rules()) {
    if ((rule.places & place) == 0 || find(rule.name) == nullptr) continue;
    harmless_.push_back(rule.name);
    if (rule.harmless.empty()) continue;  // any value
    fixed(rule.name, parse_json<Json>(rule.harmless, kRuleDepth), rule.why);
  }
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void Fields::refuse(std::string_view name, const std::string& message,
                    const std::string& code) const {
  throw Refused({.message = message, .param = path_of(name), .code = code});
}

void Fields::refuse_missing(std::string_view name) const {
  refuse(name, fmt::format("'{}' is missing", path_of(name)), "missing_required_parameter");
}

void Fields::refuse_type(std::string_view name, std::string_view expected) const {
  refuse(name, fmt::format("'{}' must be {}", path_of(name), expected), "invalid_type");
}

const Json* Fields::find(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::boolean(std::string_view name, bool& value) {
  const Json* found = find(name);
  if (found == nullptr) return;
  if (!found->is_boolean()) refuse_type(name, "true or false");
  value = found->get<bool>();
}

void Fields::number(std::string_view name, double& value, double least, double most) {
  const Json* found = find(name);
  if (found == nullptr) return;
  if (!found->is_number()) refuse_type(name, "a number");
  const auto number = found->get<double>();
  if (!(number >= least && number <= most)) {
    refuse(name,
           fmt::format("'{}' must be from {} to {}, not {}", path_of(name), least, most, number));
  }
  value = number;
}

std::optional<std::int64_t> Fields::find_integer(std::string_view name, std::int64_t least,
                                                 std::int64_t most) {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  const bool too_large =
      found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  if (!found->is_number_integer()) refuse_type(name, "a whole number");
  const auto number = too_large ? INT64_MAX : found->get<std::int64_t>();
  if (too_large || number < least || number > most) {
    refuse(name,
           fmt::format("'{}' must be from {} to {}, not {}", path_of(name), least, most, number));
  }
  return number;
}

bool Fields::text(std::string_view name, std::string& value) {
  const Json* found = find(name);
  if (found == nullptr) return false;
  if (!found->is_string()) refuse_type(name, "a text");
  value = found->get<std::string>();
  return true;
}

void Fields::choice(std::string_view name, std::string& value,
                    std::initializer_list<std::string_view> choices) {
  std::string given;
  if (!text(name, given)) return;
  std::string list;
  for (const std::string_view choice : choices) {
    if (given == choice) {
      value = given;
      return;
    }
    list += fmt::format("{}'{}'", list.empty() ? "" : ", ", choice);
  }
  refuse(name, fmt::format("'{}' must be one of {}", path_of(name), list));
}

void Fields::fixed(std::string_view name, const Json& harmless, std::string_view why) {
  const Json* found = find(name);
  if (found == nullptr) return;
  if (std::find(harmless.begin(), harmless.end(), *found) != harmless.end()) return;
  refuse(name, fmt::format("'{}' is not supported: {}", path_of(name), why),
         "unsupported_parameter");
}

std::vector<std::string_view> Fields::unknown() const {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : object_.get_ref<const Json::object_t&>()) {
    if (!value.is_null() && !known_.contains(name)) names.push_back(name);
  }
  return names;
}

std::vector<std::string_view> Fields::unread() const {
  std::vector<std::string_view> names = unknown();
  for (const std::string_view name : harmless_) {
    const Json& value = *object_.find(name);
    const bool is_empty = value.is_string() ? value.get_ref<const std::string&>().empty()
                                            : value.is_structured() && value.empty();
    if (!is_empty) names.push_back(name);
  }
  return names;
}

void Fields::ignore(std::string_view name, const std::string& why) const {
  if (!ignored_.strict()) return ignored_.add(path_, name);
  if (!why.empty()) refuse(name, why, "unsupported_parameter");
  refuse(name, fmt::format("'{}' is not a field that this server knows", path_of(name)),
         "unknown_parameter");
}

void Fields::ignore_at(std::string_view path, const std::string& why) const {
  if (ignored_.strict()) refuse(path, why, "unsupported_parameter");
  const auto dot = path.rfind('.');
  if (dot == std::string_view::npos) return ignored_.add({}, path);
  ignored_.add(path.substr(0, dot), path.substr(dot + 1));
}

void Fields::end() const {
  for (const std::string_view name : unknown()) ignore(name);
}

std::vector<std::string> one_or_more_texts(Fields& fields, std::string_view name,
                                           std::size_t most) {
  const Json* found = fields.find(name);
  if (found == nullptr) return {};
  std::vector<std::string> texts;
  if (found->is_string()) {
    texts.push_back(found->get<std::string>());
  } else if (found->is_array()) {
    for (const Json& element : *found) {
      if (!element.is_string()) fields.refuse_type(name, "a text, or a list of texts");
      texts.push_back(element.get<std::string>());
    }
  } else {
    fields.refuse_type(name, "a text, or a list of texts");
  }
  if (texts.size() > most) {
    fields.refuse(name, fmt::format("'{}' has {} texts, and {} are the most", fields.path_of(name),
                                    texts.size(), most));
  }
  for (const std::string& text : texts) {
    if (text.empty()) {
      fields.refuse(name, fmt::format("'{}' must not have an empty text", fields.path_of(name)));
    }
  }
  return texts;
}

}  // namespace tapegrad::serve
