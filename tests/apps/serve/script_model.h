#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/random.h"
#include "tapegrad/tests/apps/serve/running_server.h"

// A model that says known texts at temperature 0: behind each token comes one other. What the
// prompt ends with, a single character of the request's variable `start`, chooses the text.
struct ScriptModel {
  // Texts in pieces, a token each: none is in two places. `special`: pieces that are special
  // tokens. `signs`: what the template is to have for its models' form of calls and of reasoning.
  using Scripts = std::map<char, std::vector<std::string>>;
  explicit ScriptModel(const Scripts& scripts, const std::string& signs = "",
                       const std::vector<std::string>& special = {})
      : tokenizer_(Fields::parse(TempFolder::get(tiny.path / "tokenizer.json"))) {
    for (const auto& [start, pieces] : scripts) {
      std::int32_t last = id_of(std::string(1, start));
      for (const std::string& piece : pieces) {
        const bool is_special = std::ranges::find(special, piece) != special.end();
        follow(last, is_special ? special_id(piece) : id_of(piece));
      }
      follow(last, 0);  // <|endoftext|>
    }
    tiny.folder.put("tiny-chat/tokenizer.json", tokenizer_.dump());
    put_config();
    put_weights();
    tiny.folder.put(
        "tiny-chat/tokenizer_config.json",
        Fields{{"eos_token", "<|endoftext|>"},
               {"chat_template",
                "{# " + signs +
                    " #}{% for m in messages %}[{{ m.role }}] {{ m.reasoning_content }}"
                    "{{ m.content }}\n{% endfor %}{{ 'plain ' if enable_thinking is defined and "
                    "not enable_thinking }}{{ start }}"}}
            .dump());
  }

  TinyChatModel tiny;

 private:
  static constexpr std::int64_t kWidth = 64;

  // Pieces are of ASCII.
  std::int32_t id_of(const std::string& piece) {
    std::string name;
    for (const char c : piece) {
      if (c == ' ') {
        name += "\u0120";
      } else if (c == '\n') {
        name += "\u010a";
      } else {
        name += c;
      }
    }
    Fields& vocab = tokenizer_["model"]["vocab"];
    if (!vocab.contains(name)) vocab[name] = next_++;
    return vocab[name];
  }
  std::int32_t special_id(const std::string& piece) {
    Fields token = tokenizer_["added_tokens"][0];
    token["id"] = next_;
    token["content"] = piece;
    tokenizer_["added_tokens"].push_back(token);
    return next_++;
  }
  void follow(std::int32_t& last, std::int32_t token) {
    REQUIRE(next_of_.emplace(last, token).second);
    last = token;
  }
  void put_config() const {
    Fields config = Fields::parse(TempFolder::get(tiny.path / "config.json"));
    config.update({{"max_position_embeddings", 2048},
                   {"hidden_size", kWidth},
                   {"intermediate_size", 1},
                   {"num_hidden_layers", 1},
                   {"num_attention_heads", 1},
                   {"num_key_value_heads", 1},
                   {"layer_types", {"full_attention"}},
                   {"tie_word_embeddings", false},
                   {"vocab_size", next_}});
    tiny.folder.put("tiny-chat/config.json", config.dump());
  }
  // The layer adds nothing. Embeddings are at right angles, nearly, and the logits of a token have
  // those before it.
  void put_weights() const {
    using tapegrad::Tensor;
    std::vector<float> embeddings(static_cast<std::size_t>(next_ * kWidth));
    tapegrad::Rng rng(1);
    for (float& value : embeddings) value = rng.next32() % 2 == 0 ? 1.0F : -1.0F;
    std::vector<float> head(embeddings.size(), 0.0F);
    for (const auto& [before, token] : next_of_) {
      for (std::int64_t i = 0; i < kWidth; ++i) {
        head[static_cast<std::size_t>(token * kWidth + i)] +=
            embeddings[static_cast<std::size_t>(before * kWidth + i)] / 2;
      }
    }
    const std::string layer = "model.layers.0.";
    tapegrad::NamedTensors named = {
        {"model.embed_tokens.weight", Tensor::from(embeddings, {next_, kWidth})},
        {"lm_head.weight", Tensor::from(head, {next_, kWidth})},
        {"model.norm.weight", Tensor::full({kWidth}, 1)},
        {layer + "input_layernorm.weight", Tensor::full({kWidth}, 1)},
        {layer + "post_attention_layernorm.weight", Tensor::full({kWidth}, 1)},
        {layer + "mlp.gate_proj.weight", Tensor::full({1, kWidth}, 0)},
        {layer + "mlp.up_proj.weight", Tensor::full({1, kWidth}, 0)},
        {layer + "mlp.down_proj.weight", Tensor::full({kWidth, 1}, 0)},
        {layer + "self_attn.o_proj.weight", Tensor::full({kWidth, kWidth}, 0)}};
    for (const char* name : {"q", "k", "v"}) {
      const std::string part = layer + "self_attn." + name + "_proj.";
      named.emplace_back(part + "weight", Tensor::full({kWidth, kWidth}, 0));
      named.emplace_back(part + "bias", Tensor::full({kWidth}, 0));
    }
    tapegrad::save_safetensors((tiny.path / "model.safetensors").string(), named);
  }

  Fields tokenizer_;
  std::int32_t next_ = 401;
  std::map<std::int32_t, std::int32_t> next_of_;
};
