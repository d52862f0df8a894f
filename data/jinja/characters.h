#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::data::jinja {

// Texts as Python sees them: characters (code points), not bytes. Bytes that are no UTF-8 count as
// one character each.

std::size_t character_count(std::string_view text);
std::vector<std::string_view> characters_of(std::string_view text);  // see kMostOfParts
// Where character i begins; the end for i = count.
std::size_t byte_of(std::string_view text, std::size_t character);

// For each byte of a text, the bytes that a list of its characters, words or lines may take.
inline constexpr std::size_t kMostOfParts = sizeof(std::string_view);

// str.isspace() of each: more than ASCII's white space.
bool is_space(char32_t c);
// The words between white space: str.split().
std::vector<std::string_view> words_of(std::string_view text);
// The lines without their ends: str.splitlines(), which knows more ends than \n.
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends = false);
// str.strip(), of white space, or of the characters in `chars`.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
std::string_view strip_left(std::string_view text, std::string_view chars);
std::string_view strip_right(std::string_view text, std::string_view chars);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);  // str.title(), by letters; not Jinja's filter

bool is_printable(char32_t c);
bool is_word(char32_t c);  // \w of Python's re
}  // namespace tapegrad::data::jinja
