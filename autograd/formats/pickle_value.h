#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// A value that a pickle of Python has made: see pickle.h. Its texts are parts of the pickle.
struct PickleValue {
  enum class Kind {
    none,
    boolean,
    integer,
    number,
    text,
    bytes,
    tuple,
    list,
    dict,
    storage,
    tensor
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // also of a boolean, 0 or 1, and the elements of a storage
  double number = 0;
  std::string_view text = {};  // also of bytes, and the key of a storage: its file's name
  // Elements of a tuple or list; key, value, key, value … of a dict; storage, offset, shape and
  // strides of a tensor, the last two being tuples of integers. Values may be shared, and a list
  // may be inside of itself: walk along known paths only.
  std::vector<const PickleValue*> items = {};
  std::string_view type = {};  // of a storage's elements: "FloatStorage"

  // The value of this kind; otherwise an Error that calls it `what`.
  std::int64_t as_integer(std::string_view what) const;
  double as_number(std::string_view what) const;  // of integers, too
  bool as_boolean(std::string_view what) const;
  std::string_view as_text(std::string_view what) const;
  const PickleValue& as(Kind kind, std::string_view what) const;
  // The value of a dict's text key, the last of several, as in Python; null if there is none.
  const PickleValue* find(std::string_view key) const;
};

// "an int", "a dict".
std::string_view name_of(PickleValue::Kind kind);

}  // namespace tapegrad
