#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/apps/serve/api/fields/field_rules.h"
#include "tapegrad/apps/serve/api/fields/ignored_fields.h"
#include "tapegrad/apps/serve/api/fields/refusal.h"

namespace tapegrad::serve {

// The fields of a JSON object that a client has sent. Each that is understood is asked for once;
// what becomes of all others, field_rules() says. A field that is null is not there. Whatever is
// not as the call says is a Refused that names the field.
class Fields {
 public:
  // The request itself. Refuses what field_rules() refuse at this place. The object and `ignored`
  // must outlive this.
  Fields(const Json& body, FieldPlace place, IgnoredFields& ignored)
      : Fields(body, place, ignored, {}) {}
  // An object in it, by its place in the request: "response_format".
  Fields inside(const Json& object, FieldPlace place, std::string path) const {
    return {object, place, ignored_, std::move(path)};
  }

  // The value of a field; null if it is not there.
  const Json* find(std::string_view name);
  void boolean(std::string_view name, bool& value);
  void number(std::string_view name, double& value, double least, double most);
  // T is std::int64_t, or an optional of it.
  template <class T>
  void integer(std::string_view name, T& value, std::int64_t least, std::int64_t most) {
    if (const auto found = find_integer(name, least, most)) value = *found;
  }
  // False if it is not there.
  bool text(std::string_view name, std::string& value);
  // One of these.
  void choice(std::string_view name, std::string& value,
              std::initializer_list<std::string_view> choices);
  // A field that has one of these values here, which it may be given.
  void fixed(std::string_view name, const Json& harmless, std::string_view why);
  // The names of what was not asked for.
  std::vector<std::string_view> unknown() const;
  // The same, with what field_rules() take as harmless here, unless it is empty: a list, a text.
  std::vector<std::string_view> unread() const;
  // Names a field as ignored, or refuses it if requests are strict: one that is not known, if
  // nothing else is said of it.
  void ignore(std::string_view name, const std::string& why = {}) const;
  // The same for what is deeper in the request: "tools[0].function.parameters".
  void ignore_at(std::string_view path, const std::string& why) const;
  // Ignores what was not asked for.
  void end() const;

  std::string path_of(std::string_view name) const;
  [[noreturn]] void refuse(std::string_view name, const std::string& message,
                           const std::string& code = "invalid_value") const;
  [[noreturn]] void refuse_missing(std::string_view name) const;
  [[noreturn]] void refuse_type(std::string_view name, std::string_view expected) const;

 private:
  Fields(const Json& object, FieldPlace place, IgnoredFields& ignored, std::string path);
  std::optional<std::int64_t> find_integer(std::string_view name, std::int64_t least,
                                           std::int64_t most);

  const Json& object_;
  IgnoredFields& ignored_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string_view> harmless_;  // of known_, by field_rules() alone
};

// A list of texts, or a single one. Refused with more than `most`, or if one is empty.
std::vector<std::string> one_or_more_texts(Fields& fields, std::string_view name, std::size_t most);

}  // namespace tapegrad::serve
