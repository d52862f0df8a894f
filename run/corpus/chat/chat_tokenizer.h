#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/tokenize/bpe/bpe_train.h"
#include "tapegrad/run/corpus/text.h"
#include "tapegrad/run/models/model_settings.h"

namespace tapegrad::run {

// The needs of a model that has never seen a conversation: tokens to write one with, and a
// template.

// A tokenizer with the tokens of ChatML, which it may have already. Its texts end at <|im_end|>,
// before what ended them. Error for characters, which have no tokens beside them.
data::Tokenizer with_chatml_tokens(const data::Tokenizer& tokenizer);

// The tokenizer that `spec` names (gpt2, bpe:N, a path), with the tokens of ChatML. bpe:N has N
// tokens with these two, and learns from the training part that chat_data_of() makes.
data::Tokenizer make_chat_tokenizer(const std::string& spec, const Text& text, double val_fraction,
                                    std::uint64_t seed);
// The same, of a text whose words `count` counts, which is called for bpe:N alone.
data::Tokenizer make_chat_tokenizer(const std::string& spec,
                                    const std::function<void(data::PieceCounts&)>& count);

// Counts the words of a conversation, with those of its tools and calls, as ChatML writes them.
void count_words(const data::Conversation& conversation, data::PieceCounts& pieces);

// Settings that say the template, whether they did before or not.
ModelSettings settings_with_template(ModelSettings settings, const data::Tokenizer& tokenizer,
                                     const data::ChatTemplate& chat_template);

}  // namespace tapegrad::run
