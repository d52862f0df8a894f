#include "tapegrad/autograd/formats/pickle_value.h"

#include "tapegrad/base/error.h"

namespace tapegrad {

using Kind = PickleValue::Kind;

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "a bool";
    case Kind::integer:
      return "an int";
    case Kind::number:
      return "a float";
    case Kind::text:
      return "a str";
    case Kind::bytes:
      return "bytes";
    case Kind::tuple:
      return "a tuple";
    case Kind::list:
      return "a list";
    case Kind::dict:
      return "a dict";
    case Kind::storage:
      return "a storage";
    case Kind::tensor:
      return "a tensor";
  }
  return "a name";
}

const PickleValue& PickleValue::as(Kind wanted, std::string_view what) const {
  check(kind == wanted, "{} must be {}, not {}", what, name_of(wanted), name_of(kind));
  return *this;
}
std::int64_t PickleValue::as_integer(std::string_view what) const {
  return as(Kind::integer, what).integer;
}
double PickleValue::as_number(std::string_view what) const {
  if (kind == Kind::integer) return static_cast<double>(integer);
  return as(Kind::number, what).number;
}
bool PickleValue::as_boolean(std::string_view what) const {
  return as(Kind::boolean, what).integer != 0;
}
std::string_view PickleValue::as_text(std::string_view what) const {
  return as(Kind::text, what).text;
}

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::dict) return nullptr;
  for (std::size_t i = items.size(); i >= 2; i -= 2) {
    if (items[i - 2]->kind == Kind::text && items[i - 2]->text == key) return items[i - 1];
  }
  return nullptr;
}

}  // namespace tapegrad
