#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/serve/api/refusal.h"

namespace tapegrad::serve {

// The fields of a JSON object that a client has sent. Each that is understood is asked for once;
// end() refuses all others by name, so that none is ignored. A field that is null is not there.
// Whatever is not as the call says is a Refused that names the field.
class Fields {
 public:
  // `path` is the object's place in the request: "response_format"; "": the request itself.
  explicit Fields(const Json& object, std::string path = {});

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
  // Fields that change nothing of an answer, for clients that send them; any value.
  void unchanging(std::initializer_list<std::string_view> names);
  // A field that has one value here, which it may be given: `neutral` or an empty list or object.
  void fixed(std::string_view name, const Json& neutral, std::string_view why);
  // Refuses what was not asked for.
  void end() const;

  std::string path_of(std::string_view name) const;
  [[noreturn]] void refuse(std::string_view name, const std::string& message,
                           const std::string& code = "invalid_value") const;
  [[noreturn]] void refuse_type(std::string_view name, std::string_view expected) const;

 private:
  std::optional<std::int64_t> find_integer(std::string_view name, std::int64_t least,
                                           std::int64_t most);

  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

// A list of texts, or a single one. Refused with more than `most`, or if one is empty.
std::vector<std::string> one_or_more_texts(Fields& fields, std::string_view name, std::size_t most);

}  // namespace tapegrad::serve
