#include "tapegrad/apps/serve/api/token_calls.h"

#include "tapegrad/apps/serve/api/chat_prompt.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/decode_text.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostTokenized = std::size_t{1} << 20;  // bytes
constexpr std::size_t kTokensToLook = 4096;
// The text of a few bytes as JSON, "1000,", may be as long as the longest token.
constexpr std::size_t kMostDetokenized = std::size_t{4} << 20;

}  // namespace

Json tokenize(const Json& body, const Asked& asked) {
  const ServedModel& model = asked.model;
  Fields fields(body, kInTokens, *asked.ignored);
  read_model_name(fields, model);
  std::string content;
  if (!fields.text("content", content)) {
    fields.refuse_missing("content");
  }
  if (content.size() > kMostTokenized) {
    fields.refuse("content", fmt::format("'content' has {} bytes, and {} are the most",
                                         content.size(), kMostTokenized));
  }
  bool add_special = false, parse_special = true, with_pieces = false;
  fields.boolean("add_special", add_special);
  fields.boolean("parse_special", parse_special);
  fields.boolean("with_pieces", with_pieces);
  fields.end();
  const data::Tokenizer& tokenizer = model.model.tokenizer;
  nn::Tokens tokens;
  if (add_special) tokens.assign(tokenizer.begin().begin(), tokenizer.begin().end());
  try {
    const auto of_text = tokenizer.encode(content, parse_special);
    tokens.insert(tokens.end(), of_text.begin(), of_text.end());
  } catch (const Error& error) {  // a character that the tokenizer does not have
    fields.refuse("content", error.what());
  }
  Json list = Json::array();
  for (const std::int32_t token : tokens) {
    if (list.size() % kTokensToLook == 0) asked.look();
    if (!with_pieces) {
      list.push_back(token);
      continue;
    }
    const std::string bytes = tokenizer.token_bytes(token);
    Json piece = bytes;
    if (find_invalid_utf8(bytes)) {
      piece = Json::array();
      for (const char byte : bytes) piece.push_back(static_cast<unsigned char>(byte));
    }
    list.push_back({{"id", token}, {"piece", std::move(piece)}});
  }
  return {{"tokens", std::move(list)}};
}

Json detokenize(const Json& body, const Asked& asked) {
  const ServedModel& model = asked.model;
  Fields fields(body, kInTokens, *asked.ignored);
  read_model_name(fields, model);
  const Json* list = fields.find("tokens");
  if (list == nullptr || !list->is_array()) fields.refuse_type("tokens", "a list of tokens");
  fields.end();
  const nn::Tokens tokens = tokens_of_json(fields, "tokens", *list, model);
  const data::Tokenizer& tokenizer = model.model.tokenizer;
  std::size_t bytes = 0;
  for (const std::int32_t token : tokens) bytes += tokenizer.token_bytes(token).size();
  if (bytes > kMostDetokenized) {
    fields.refuse("tokens", fmt::format("'tokens' stand for {} bytes, and {} are the most", bytes,
                                        kMostDetokenized));
  }
  return {{"content", data::decode_text(tokenizer, tokens)}};
}

Json apply_template(const Json& body, const Asked& asked) {
  Fields fields(body, kInTemplate, *asked.ignored);
  read_model_name(fields, asked.model);
  const std::string prompt = chat_prompt(fields, asked, read_messages(fields, asked)).chat.text;
  fields.end();
  return {{"prompt", prompt}};
}

Json describe_model(const ServedModel& model, const NamedModel& named) {
  const nn::DecoderConfig& c = model.model.gpt.config;
  return {{"id", named.name},
          {"parent", named.adapter ? Json(model.name()) : Json()},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "tapegrad"},
          {"meta",
           {{"n_vocab", c.vocab_size},
            {"n_ctx", model.context},
            {"n_ctx_train", c.block_size},
            {"n_embd", c.n_embd},
            {"chat", model.chat.has_value()}}}};
}

Json list_models(const ServedModel& model) {
  Json list = Json::array();
  for (const NamedModel& named : model.named) list.push_back(describe_model(model, named));
  return {{"object", "list"}, {"data", std::move(list)}};
}

}  // namespace tapegrad::serve
