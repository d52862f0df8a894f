#pragma once

#include "tapegrad/run/models/model.h"

namespace tapegrad::run {

// Gives a model that has no chat template ChatML, before it learns to answer. Its settings get the
// template, and its texts end at <|im_end|>, too. A tokenizer that lacks <|im_start|> and
// <|im_end|> gets them; where the embedding and the head have no rows for their ids, they get some,
// each the mean of the others (Hewitt, "Initializing New Word Embeddings for Pretrained Language
// Models", 2021). Returns how many. Nothing changes for a model that has a template. Error for a
// tokenizer of characters.
std::int64_t add_chatml(OpenedModel& model);

}  // namespace tapegrad::run
