#include "tapegrad/apps/inspect/views.h"

namespace tapegrad::embedded {
std::string_view inspect_page();
std::string_view inspect_script();
std::string_view inspect_style();
}  // namespace tapegrad::embedded

namespace tapegrad::inspect {
namespace {

void replace(std::string& page, std::string_view mark, std::string_view text) {
  const std::size_t at = page.find(mark);
  check(at != std::string::npos, "the page has no place for {}", mark);
  page.replace(at, mark.size(), text);
}

// JSON inside of a script element: '<' could end the element, and stands in texts only.
std::string without_brackets(const std::string& json) {
  std::string text;
  for (const char c : json) c == '<' ? text.append("\\u003c") : text.append(1, c);
  return text;
}

}  // namespace

std::string html_of(const Look& look) {
  std::string page(embedded::inspect_page());
  replace(page, "/* inside.css */", embedded::inspect_style());
  replace(page, "/* inside.js */", embedded::inspect_script());
  replace(page, "/* data */", without_brackets(json_text(look)));  // last: it may hold any text
  return page;
}

}  // namespace tapegrad::inspect
