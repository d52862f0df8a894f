#pragma once

#include <span>
#include <string_view>

#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::data {

// The lists and objects of arguments are nested at most so deeply, wherever they are read.
inline constexpr int kMostArgumentDepth = 48;

// The names of functions that any format can write: 1 to 64 of letters, digits, '_', '-' and '.'.
bool is_function_name(std::string_view name);

// Of the names of functions and of their arguments where these stand without quotes.
inline bool is_name_character(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// What stands between the marks of a call.
enum class CallBody {
  object,            // {"name": "f", "arguments": {…}}
  list,              // a list of such objects
  name_then_object,  // f, the format's mark between, {…}
  python,            // [f(a=1, b="x"), g()]: keyword arguments alone
  gemma,             // call:f{a:1,b:<escape>x<escape>}, with the format's `quote` for <escape>
};

// How a family of models writes that it calls functions.
struct CallFormat {
  std::string_view name;
  // Texts that chat templates of this format have, and others do not. Backslashes do not count.
  std::string_view sign, also = {};
  CallBody body = CallBody::object;
  // Around each call, or around the list of all. An empty `begin`: the answer as a whole is the
  // body; several bodies are separated by ';' or white space. An empty `end`: the body ends itself.
  std::string_view begin = {}, end = {};
  std::string_view between = {};  // of name_then_object
  std::string_view quote = {};    // of gemma: on both sides of a text
  std::string_view arguments_key = "arguments";
  // A mark that an answer of calls may begin with, though it need not.
  std::string_view before = {};
  // The answer is a sequence of messages, each with a header that names its channel: gpt-oss.
  bool channels = false;
};

// All that are known, a row each.
std::span<const CallFormat> call_formats();
// The format of a template that reads tools; nullptr if it does not, or writes calls in a way that
// is not known. Such models are told plain_call_format() by a message.
const CallFormat* call_format_of(const ChatTemplate& chat_template);
const CallFormat& plain_call_format();

}  // namespace tapegrad::data
