#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::serve {

// The fields of a request that nothing here knows. They change nothing, and are named: to the
// client in a header, and once in the log. A client may name a field as it likes: what is kept is
// short, and of letters that a header and a terminal may have.
class IgnoredFields {
 public:
  // `strict`: Fields refuses them.
  explicit IgnoredFields(bool strict = false) : strict_(strict) {}

  bool strict() const { return strict_; }
  // A field of the object at a place of the request: add("messages[0]", "opts"). Of fields that
  // differ by numbers of places alone, the first is kept.
  void add(std::string_view place, std::string_view field);
  // The value of X-Tapegrad-Ignored: "messages[0].opts, seeds"; "": there are none.
  std::string header() const;
  // The same without numbers: "messages[].opts", "seeds".
  const std::vector<std::string>& names() const { return names_; }
  // A field that a message says to the model, since its template does not read it: "tools".
  void tell_by_message() { told_ = true; }
  bool told_by_message() const { return told_; }

 private:
  bool strict_;
  std::vector<std::string> places_, names_;  // of the same fields
  bool more_ = false, told_ = false;
};

}  // namespace tapegrad::serve
