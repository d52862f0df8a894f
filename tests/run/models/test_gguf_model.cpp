#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/tests/run/models/gguf_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

void check_is_golden_file(run::TextModel model, const fs::path& path) {
  model.gpt.rule_out({});  // transformers counts rows that stand for no token
  const SafeTensors expected = load_safetensors(path.string());
  const Tensor logits = model.gpt(expected.at("input_ids"));
  CHECK(difference(logits, expected.at("logits"), 1e-5, 3e-5) == "");
  const auto prompt = expected.at("prompt").values<std::int32_t>();
  const auto greedy = expected.at("greedy").values<std::int32_t>();
  CHECK(nn::stream(model.gpt, {prompt.begin(), prompt.end()},
                   {.max_new_tokens = std::ssize(greedy), .greedy = true})
            .tokens() == nn::Tokens(greedy.begin(), greedy.end()));
}

}  // namespace

TEST_CASE("models in GGUF compute what transformers computes", "[gguf_model]") {
  check_is_golden_file(run::load(golden_file("gguf_gpt2.gguf")),
                       golden_file("hf_gpt2/expected.safetensors"));
  check_is_golden_file(run::load(golden_file("gguf_llama.gguf")),
                       golden_file("gguf_llama.safetensors"));
}

TEST_CASE("the tokenizer in a GGUF file makes the ids of Hugging Face's", "[gguf_model]") {
  const auto golden = golden_json("tokenizers.json");
  for (const auto& [file, style] :
       {std::pair("gguf_gpt2.gguf", "gpt2"), std::pair("gguf_llama.gguf", "llama3")}) {
    const data::Tokenizer tokenizer = run::load(golden_file(file)).tokenizer;
    const auto begin = golden.at(style).at("begin").get<std::vector<data::Token>>();
    CHECK(std::ranges::equal(tokenizer.begin(), begin));
    CHECK(tokenizer.vocab_size() == 404);
    CHECK(tokenizer.token_bytes(403).empty());
    for (const auto& encoding : golden.at(style).at("encodings")) {
      const auto text = encoding.at("text").get<std::string>();
      INFO(style << ": " << text);
      CHECK(tokenizer.encode(text, true) == encoding.at("ids").get<std::vector<data::Token>>());
    }
  }
}

TEST_CASE("texts end at a file's eos_token_id", "[gguf_model]") {
  const TempFolder folder;
  const data::Tokenizer named = golden_tokenizer("gpt2");
  const std::int64_t other = named.encode("e")[0];
  for (const auto& ends : {std::vector<std::int64_t>{}, {other}, {other, *named.end_of_text()}}) {
    const data::Tokenizer tokenizer = named.ending_at(ends);
    run::export_gguf(model_of(tokenizer, tiny(tokenizer)), folder / "file.gguf",
                     stored_type("f32"));
    const std::vector<data::Token> first{tokenizer.ends().front()};
    CHECK(run::load(folder / "file.gguf").tokenizer.ends() == first);
    CHECK(std::get<std::int64_t>(
              GgufFile(folder / "file.gguf").keys().at("tokenizer.ggml.eos_token_id")) == first[0]);
  }
  Edited e;
  e.keys["tokenizer.ggml.eos_token_id"] = std::int64_t{404};
  CHECK_THAT(e.complaint(), ContainsSubstring("eos_token_id 404 is no token"));
  e.keys.erase("tokenizer.ggml.eos_token_id");
  CHECK(e.complaint() == "");
  e.keys["tokenizer.ggml.add_bos_token"] = true;
  e.keys["tokenizer.ggml.bos_token_id"] = std::int64_t{404};
  CHECK_THAT(e.complaint(), ContainsSubstring("bos_token_id does not name"));
}

TEST_CASE("keys that may change the result, or do not fit, are refused by name", "[gguf_model]") {
  const auto with = [](const std::string& key, const GgufValue& value) {
    Edited e;
    e.keys[key] = value;
    return e.complaint();
  };
  CHECK(Edited().complaint() == "");
  using Text = std::string;
  CHECK_THAT(with("general.architecture", Text("mamba")), ContainsSubstring("'mamba'"));
  CHECK_THAT(with("general.type", Text("adapter")), ContainsSubstring("'adapter'"));
  CHECK_THAT(with("split.count", std::int64_t{2}), ContainsSubstring("there is no key 'split.no'"));
  CHECK_THAT(with("gpt2.attention.sliding_window", std::int64_t{8}),
             ContainsSubstring("'gpt2.attention.sliding_window'"));
  CHECK_THAT(with("gpt2.block_count", std::int64_t{0}),
             ContainsSubstring("'gpt2.block_count (n_layer)' must be from 1"));
  CHECK_THAT(with("gpt2.block_count", Text("2")), ContainsSubstring("must be a whole number"));
  CHECK_THAT(with("gpt2.block_count", std::int64_t{3}), ContainsSubstring("blk.2."));
  CHECK_THAT(with("gpt2.block_count", std::int64_t{1}), ContainsSubstring("blk.1."));
  CHECK_THAT(with("gpt2.block_count", std::int64_t{UINT32_MAX}), ContainsSubstring("n_layer"));
  CHECK_THAT(with("gpt2.attention.layer_norm_epsilon", 0.0), ContainsSubstring("norm_eps"));
  CHECK_THAT(with("gpt2.attention.head_count", std::int64_t{3}), ContainsSubstring("n_head"));
  CHECK_THAT(with("gpt2.context_length", std::int64_t{25}), ContainsSubstring("wpe.weight"));
  CHECK_THAT(with("tokenizer.ggml.model", Text("llama")),
             ContainsSubstring("tokenizer.ggml.scores 0"));
  CHECK_THAT(with("tokenizer.ggml.model", Text("t5")), ContainsSubstring("'t5'"));
  CHECK_THAT(with("tokenizer.ggml.pre", Text("default")), ContainsSubstring("'default'"));
  CHECK_THAT(with("tokenizer.ggml.add_eos_token", true), ContainsSubstring("add_eos_token"));
  CHECK_THAT(with("tokenizer.ggml.tokens", std::vector<Text>{"a"}), ContainsSubstring("1 tokens"));
  CHECK_THAT(with("tokenizer.ggml.merges", std::vector<Text>{"a"}), ContainsSubstring("merge 0"));
  Edited edited;
  edited.keys.erase("tokenizer.ggml.merges");
  CHECK_THAT(edited.complaint(), ContainsSubstring("there is no tokenizer.ggml.merges"));
  edited.keys["tokenizer.ggml.merges"] = std::vector<Text>{};
  CHECK(edited.complaint() == "");
  const auto tokens = std::get<std::vector<Text>>(edited.keys.at("tokenizer.ggml.tokens"));
  auto twice = tokens, broken = tokens;
  twice[5] = twice[6], broken[300] = "\xff";
  CHECK_THAT(with("tokenizer.ggml.tokens", twice), ContainsSubstring("is there twice"));
  CHECK_THAT(with("tokenizer.ggml.tokens", broken), ContainsSubstring("not in UTF-8"));
  auto types = std::get<std::vector<std::int64_t>>(edited.keys.at("tokenizer.ggml.token_type"));
  types[7] = 6;
  CHECK_THAT(with("tokenizer.ggml.token_type", types), ContainsSubstring("of type 6"));
  edited.tensors.push_back(
      {"output.bias", &stored_type("f32"), {404}, [] { return Tensor::zeros({404}); }});
  CHECK_THAT(edited.complaint(), ContainsSubstring("'output.bias'"));
  edited.tensors.erase(edited.tensors.begin(), edited.tensors.begin() + 1);
  edited.tensors.pop_back();
  CHECK_THAT(edited.complaint(), ContainsSubstring("there is no tensor 'blk.0.attn_norm.bias'"));
}

TEST_CASE("a model in several GGUF files is the one in a single file", "[gguf_model]") {
  Edited e;
  const Tensor ids = some_ids(e.load());
  const Tensor expected = run::load(e.folder / "edited.gguf").gpt(ids);
  const auto path = [&](int i) { return e.folder / fmt::format("m-0000{}-of-00002.gguf", i + 1); };
  const std::size_t half = e.tensors.size() / 2;
  for (int i = 0; i < 2; ++i) {
    GgufKeys keys = i == 0 ? e.keys : GgufKeys();
    keys["split.no"] = std::int64_t{i};
    keys["split.count"] = std::int64_t{2};
    keys["split.tensors.count"] = std::ssize(e.tensors);
    const auto begin = e.tensors.begin(), middle = begin + static_cast<std::ptrdiff_t>(half);
    write_gguf(path(i), keys,
               i == 0 ? std::vector(begin, middle) : std::vector(middle, e.tensors.end()));
  }
  CHECK(same_bits(run::load(path(0)).gpt(ids), expected));
  CHECK(same_bits(run::load(path(1)).gpt(ids), expected));
  fs::remove(path(0));
  CHECK_THROWS_WITH(run::load(path(1)), ContainsSubstring("part 1 of the 2"));
}

TEST_CASE("keys of Llama's family are honoured or refused", "[gguf_model]") {
  const TempFolder folder;
  run::export_gguf(run::load(golden_file("hf_llama")), folder / "good.gguf", stored_type("f32"));
  const auto with = [&](const std::string& key, const GgufValue& value) {
    Edited e(folder / "good.gguf");
    e.keys[key] = value;
    return e.complaint();
  };
  CHECK(Edited(folder / "good.gguf").complaint() == "");
  CHECK_THAT(with("llama.rope.scaling.type", std::string("longrope")),
             ContainsSubstring("rope.scaling.type 'longrope'"));
  CHECK_THAT(with("llama.rope.scaling.factor", 8.0),
             ContainsSubstring("rope.scaling.factor scale rotary positions both"));
  CHECK_THAT(with("llama.attention.sliding_window", std::int64_t{1} << 30),
             ContainsSubstring("attention.sliding_window (window)"));
  CHECK_THAT(with("llama.expert_count", std::int64_t{8}),
             ContainsSubstring("there is no 'llama.expert_used_count'"));
  CHECK_THAT(with("llama.rope.dimension_count", std::int64_t{2}),
             ContainsSubstring("dimension_count 2"));
  CHECK_THAT(with("llama.attention.value_length", std::int64_t{8}),
             ContainsSubstring("value_length 8"));
  CHECK_THAT(with("llama.attention.head_count_kv", std::int64_t{3}),
             ContainsSubstring("n_kv_head"));
  CHECK_THAT(with("tapegrad.rope_factor", 5.0), ContainsSubstring("rope_freqs.weight"));
}
