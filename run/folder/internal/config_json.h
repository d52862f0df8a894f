#pragma once

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/folder/config.h"

namespace tapegrad::run {

Json json_of_value(const Value& value);
// The inverse. Error, with the name, for an object, or a list of anything but texts.
Value value_of_json(std::string_view name, const Json& json);

// Paths may be any bytes, while JSON is UTF-8: a text that is not becomes {"hex": "2f746d70ff"}.
Json json_of_text(const std::string& text);
bool is_text(const Json& json);
std::string text_of_json(const Json& text);  // the inverse of json_of_text()

}  // namespace tapegrad::run
