#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::data {

// Readers for parts of a tokenizer.json. Errors name the member.

// The object of a file of settings beside it, Python's constants as texts; an empty one if the file
// is not there or makes no sense, which its own readers say.
nlohmann::json json_settings(const std::filesystem::path& path);

// The member, or null if there is none.
const nlohmann::json& json_member(const nlohmann::json& object, const char* name);
std::string json_text_at(const nlohmann::json& object, const char* name);
bool json_flag(const nlohmann::json& object, const char* name, bool absent);
// The parts of a list that may stand alone: {"type": "Sequence", NAME: […]}, one object, or null.
std::vector<nlohmann::json> json_parts(const nlohmann::json& value, const char* name);

// Something that the file asks for and that would change ids if it were left out.
[[noreturn]] void unsupported(std::string_view what, const nlohmann::json& value);

}  // namespace tapegrad::data
