#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/option_schema.h"

namespace tapegrad::cli {

// Values of options from text, and as text. Errors are UsageErrors that name the option.

std::string with_hyphens(std::string name);        // "--n_layer" → "--n-layer"
std::string option_name(std::string_view member);  // "n_layer" → "--n-layer"

// The candidate that `word` was probably meant to be, or nothing.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

bool parse_switch(const std::string& option, std::string text);

// The value that a text stands for in a member of that type. A whole number may be written 1e3 or
// 10_000.
OptionValue parse_value(const std::string& option, const std::string& text, const Member& member);
[[noreturn]] void fail_choice(const std::string& option, const std::string& text,
                              const std::vector<std::string>& choices);

// Sets a member to what the texts stand for, if that keeps its rule: a list to all of them, any
// other member to the last one.
void set_from_texts(const std::string& option, const std::vector<std::string>& texts,
                    const Rule& rule, const Member& member);

// For help: what the member holds now, "yes" for true, and nothing for false and for lists.
std::string text_of_default(const Member& member);
// For help: the word that stands for an option's value, "N"; for a flag, nothing.
std::string placeholder(const Member& member, const Rule& rule);

}  // namespace tapegrad::cli
