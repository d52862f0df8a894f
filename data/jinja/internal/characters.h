#pragma once

#include <cstddef>
#include <string_view>

#include "tapegrad/data/jinja/internal/counted.h"

namespace tapegrad::data::jinja {

// Texts as Python sees them: characters (code points), not bytes. Bytes that are no UTF-8 count as
// one character each. All of these take steps by the bytes that they look at.

std::size_t character_count(std::string_view text);
Vector<std::string_view> characters_of(std::string_view text);
// Where character i begins; the end for i = count.
std::size_t byte_of(std::string_view text, std::size_t character);

// str.isspace() of each: more than ASCII's white space.
bool is_space(char32_t c);
// The words between white space: str.split().
Vector<std::string_view> words_of(std::string_view text);
// The lines without their ends: str.splitlines(), which knows more ends than \n.
Vector<std::string_view> lines_of(std::string_view text);
// str.strip(), of white space, or of the characters in `chars`.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
std::string_view strip_left(std::string_view text, std::string_view chars);
std::string_view strip_right(std::string_view text, std::string_view chars);

String upper(std::string_view text);
String lower(std::string_view text);
String capitalize(std::string_view text);
String title(std::string_view text);  // str.title(), by letters; not Jinja's filter

bool is_printable(char32_t c);
bool is_word(char32_t c);  // \w of Python's re
}  // namespace tapegrad::data::jinja
