#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/grammar/calls/internal/call_grammar.h"
#include "tapegrad/data/grammar/vocabulary_mask.h"
#include "tapegrad/nn/generation/token_mask.h"

namespace tapegrad::run {

// True if a mask sees every call that an AnswerReader reads. gpt-oss's headers have a second order,
// " to=functions.f<|channel|>commentary", which masks take for free text: arguments of such calls
// are whatever the model writes.
inline bool holds_all_calls(const data::CallFormat& format) { return !format.channels; }

// Which calls of functions an answer may have: see JsonMasks::of_calls.
struct CallRules {
  data::CallFormat format;  // its texts are read until the call returns
  std::vector<data::CallFunction> functions;
  bool several = true;  // one or more, or one alone; nothing behind the last one
  // True: the answer is calls. False: it is any text up to the format's begin mark, wherever that
  // comes, and calls from there on. Where the format has no begin mark, it is calls if it begins
  // with their bracket, or with the mark `before` them, white space aside.
  bool required = false;
  // Any text may come up to this one, as "</think>", and the rules are for what is behind it. If
  // calls are required, the answer may not end before. Empty: for the answer as a whole.
  std::string free_until = {};
  // Not empty, as "<think>": that is so if the answer begins with this text, white space aside, and
  // else the rules are for the answer as a whole. An answer that must be calls then begins with
  // them.
  std::string free_from = {};
  // Tokens that end an answer beside those of the tokenizer's ends: see answer_ends().
  std::vector<data::Token> ends = {};
};

struct CallMask {
  std::shared_ptr<const nn::TokenMask> mask;
  std::shared_ptr<const data::VocabularyMask> calls;  // what it knows of calls
};

// Free text costs next to nothing: tokens that may not come are known for each part of a mark. Such
// are tokens with the end of a mark and more, if the calls cannot go on so.
// Error of data::call_grammar, and for a body of bare names in a format without a begin mark, if
// calls are not required.
CallMask call_mask(const CallRules& rules, const data::Tokenizer& tokenizer,
                   const std::shared_ptr<const data::TokenTrie>& tokens, std::size_t most_terms);

}  // namespace tapegrad::run
