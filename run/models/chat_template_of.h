#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/run/models/model_settings.h"

namespace tapegrad::run {

// "bos_token": "<s>" and so on, as Hugging Face's files or GGUF name them: variables of templates.
data::SpecialTokenTexts special_token_texts(const ModelSettings& settings,
                                            const data::Tokenizer& tokenizer);

// The template of a model that has one: chat_template.jinja before tokenizer_config.json, or that
// of GGUF; of several named ones, `name`, or if that is empty "default" (with tools, "tool_use" is
// transformers' choice). The texts of special tokens come with it. Errors: there is none of that
// name; the template is not one.
std::optional<data::ChatTemplate> chat_template_of(const ModelSettings& settings,
                                                   const data::Tokenizer& tokenizer,
                                                   std::string_view name = {});

// The template of a model, or for one that has none ChatML, if its <|im_start|> and <|im_end|> are
// tokens of the vocabulary, each a single one; none otherwise.
std::optional<data::ChatTemplate> chat_template_or_chatml(const ModelSettings& settings,
                                                          const data::Tokenizer& tokenizer);

// The tokens with which a model ends an answer, by what the template writes behind one: a model's
// files may name the end of a text alone. None where no special token stands there.
std::vector<data::Token> answer_ends(const data::ChatTemplate& chat_template,
                                     const data::Tokenizer& tokenizer);

}  // namespace tapegrad::run
