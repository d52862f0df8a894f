#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace tapegrad {

// An object or a list in a JSON text that may have hundreds of thousands of elements, of which no
// tree is made, since a tree takes tens of times their bytes. `take` gets one element after the
// other, with its name ("" in a list); in the value of the text, the object or list is empty. A
// name may come twice.
struct JsonTable {
  std::string_view place;  // "/model/vocab"
  std::function<void(std::string_view name, const nlohmann::json& element)> take;
};
// Parses as parse_json() of json_file.h does, but for these tables.
nlohmann::json parse_json_with_tables(std::string_view text, int depth,
                                      std::span<const JsonTable> tables);

}  // namespace tapegrad
