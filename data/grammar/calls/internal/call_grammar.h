#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/grammar/json_schema.h"
#include "tapegrad/data/grammar/token_trie.h"

namespace tapegrad::data {

inline constexpr std::size_t kMostFunctions = 1000;

// A function that a model may call.
struct CallFunction {
  std::string name;
  std::string parameters = {};  // a JSON Schema of an object; empty: any object
  bool operator==(const CallFunction&) const = default;
};

// A mark, or a part of one, that is an added token.
struct MarkToken {
  std::string text;
  AddedToken added;
};
struct CallMarks {
  std::vector<MarkToken> tokens = {};  // the longest texts first: at most eight
  // The end mark is one of the tokens that end a text, which stands for it: gpt-oss's <|call|>.
  bool end_ends_text = false;
};
// Of a format's marks in a vocabulary. `ends`: the tokens that end a text.
CallMarks call_marks(const CallFormat& format, const Tokenizer& tokenizer,
                     std::span<const Token> ends);

// The texts of calls: from white space and the first begin mark on to the end of the last call, and
// nothing behind it. Marks are characters or tokens, in any mixture; white space around them may be
// there or not. One call, or `several`: one or
// more, where the format has marks between them or a list. Arguments fit the function's parameters
// as compile_schema() has them, and the white space around them is that of JsonTexts. Names of
// arguments that cannot be written bare, in a body that has them so, are left out.
//
// Error, with the function's name and the place in its parameters, for what compile_schema()
// refuses, for parameters that no object fits, and for names that are empty, twice there, or no
// is_function_name() in a body that has them without quotes. Error for more than kMostFunctions.
std::shared_ptr<const Grammar> call_grammar(const CallFormat& format,
                                            std::span<const CallFunction> functions, bool several,
                                            const CallMarks& marks = {},
                                            const GrammarLimits& limits = {});

}  // namespace tapegrad::data
