#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/run/folder/config.h"

namespace tapegrad::python {
namespace {

std::string text_of(py::handle value) { return py::cast<std::string>(py::str(value)); }

// Nothing is converted to bool: whatever has a truth value could be.
OptionValue plain_value(py::handle value) {
  using Plain = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, std::string>;
  Number number;
  if (const auto plain = converted<Plain>(value, false)) {
    return std::visit([](const auto& read) { return OptionValue(read); }, *plain);
  }
  if (!read_number(value, number)) throw py::cast_error();
  return number.value;
}

// A list is one of texts, and a dict one of texts NAME=VALUE.
OptionValue value_of(py::handle value) {
  const bool is_dict = py::isinstance<py::dict>(value);
  if (!is_dict && !py::isinstance<py::list>(value) && !py::isinstance<py::tuple>(value)) {
    return plain_value(value);
  }
  std::vector<std::string> texts;
  for (const py::handle part : value) {
    texts.push_back(is_dict ? text_of(part) + "=" + text_of(value[part]) : text_of(part));
  }
  return texts;
}

}  // namespace

py::dict dict_of(OptionSchema options) {
  return py::dict(py::cast(run::section_of("", options).values));
}

void take_options(const std::string& function, OptionSchema options, const py::dict& given) {
  run::Section section = run::section_of(function, options);
  for (const auto& [key, value] : given) {
    const std::string name = text_of(key);
    const auto known = std::find_if(section.values.begin(), section.values.end(),
                                    [&](const auto& member) { return member.first == name; });
    if (known == section.values.end()) {
      throw py::type_error(function + "() got an unexpected keyword argument '" + name + "'");
    }
    try {
      known->second = value_of(value);
    } catch (const py::cast_error&) {
      throw py::type_error(function + "() got " + name + "=" + text_of(py::repr(value)));
    }
  }
  run::read_section(function, {.sections = {section}}, function, options);
}

}  // namespace tapegrad::python
