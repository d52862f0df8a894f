#include "tapegrad/autograd/tensor/safetensors.h"
#include "tapegrad/base/half.h"
#include "tapegrad/nn/formats/gguf.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/run/models/formats/gguf_model.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GgufFile;
using nn::GgufKeys;
using nn::GgufTensor;

namespace {

namespace fs = std::filesystem;

const std::string kCorpus = "the cat, naïve; 中文字符 and 👍🏽!\nI'll say: 3.14 é\n";

nn::DecoderConfig tiny(const data::Tokenizer& tokenizer) {
  nn::DecoderConfig c;
  c.vocab_size = tokenizer.vocab_size();
  c.block_size = 16, c.n_layer = 2, c.n_head = 2, c.n_embd = 8;
  return c;
}

// Weights so large that each shows in the logits.
run::TextModel model_of(const data::Tokenizer& tokenizer, const nn::DecoderConfig& config) {
  Rng rng(3);
  nn::Params params(rng);
  nn::Decoder gpt(params, config);
  for (const auto& [name, t] : params.tensors()) {
    Tensor values = normal(rng, t.shape(), DType::f32, 0.4), into = t;
    std::copy_n(values.data<float>(), t.numel(), into.mutable_data<float>());
  }
  return {std::move(params), std::move(gpt), tokenizer};
}

data::Tokenizer small_bpe() {
  return data::Tokenizer::train_bpe(std::string_view(kCorpus + kCorpus + kCorpus), 270);
}

data::Tokenizer golden_tokenizer(const std::string& style) {
  const auto golden = golden_json("tokenizers.json");
  return data::Tokenizer::of_hf(golden.at(style).at("file").get<std::string>());
}

std::map<std::string, Tensor> tensors_of(const run::TextModel& model) {
  return {model.params.tensors().begin(), model.params.tensors().end()};
}

void check_same_weights(const run::TextModel& a, const run::TextModel& b) {
  const auto ours = tensors_of(a), theirs = tensors_of(b);
  CHECK(ours.size() == theirs.size());
  for (const auto& [name, t] : ours) {
    INFO(name);
    REQUIRE(theirs.count(name) == 1);
    CHECK(same_bits(t, theirs.at(name)));
  }
}

Tensor some_ids(const run::TextModel& model) {
  std::vector<std::int32_t> values;
  for (int i = 0; i < 12; ++i) {
    values.push_back(static_cast<std::int32_t>(i * 7 % model.gpt.config.vocab_size));
  }
  return Tensor::from(values, {1, 12});
}

void check_is_golden(const run::TextModel& model, const fs::path& path) {
  const SafeTensors expected = load_safetensors(path.string());
  const Tensor logits = model.gpt(expected.at("input_ids"));
  CHECK(difference(logits, expected.at("logits"), 1e-5, 3e-5) == "");
  const auto prompt = expected.at("prompt").values<std::int32_t>();
  const auto greedy = expected.at("greedy").values<std::int32_t>();
  Rng unused(0);
  CHECK(nn::generate(model.gpt, {prompt.begin(), prompt.end()},
                     {.max_new_tokens = std::ssize(greedy), .greedy = true},
                     unused) == nn::Tokens(greedy.begin(), greedy.end()));
}

// The golden GPT-2 with other keys or tensors, and what is said of it.
struct Edited {
  TempFolder folder;
  GgufFile file{golden_file("gguf_gpt2.gguf")};
  GgufKeys keys = file.keys();
  std::vector<GgufTensor> tensors;
  Edited() {
    for (const auto& [name, entry] : file.entries()) {
      tensors.push_back({name, &stored_type("f32"), entry.shape,
                         [this, tensor = std::string(name)] { return file.read(tensor); }});
    }
  }
  std::string complaint() {
    const fs::path path = folder / "edited.gguf";
    nn::write_gguf(path, keys, tensors);
    try {
      run::load(path);
      return "";
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK_THAT(text, ContainsSubstring(path.string()));
      return text;
    }
  }
};

}  // namespace

TEST_CASE("models in GGUF compute what transformers computes", "[gguf_model]") {
  check_is_golden(run::load(golden_file("gguf_gpt2.gguf")),
                  golden_file("hf_gpt2/expected.safetensors"));
  check_is_golden(run::load(golden_file("gguf_llama.gguf")), golden_file("gguf_llama.safetensors"));
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

TEST_CASE("exported models come back bit for bit", "[gguf_model]") {
  const TempFolder folder;
  for (const char* name : {"hf_gpt2", "hf_llama", "hf_qwen2", "hf_qwen3"}) {
    INFO(name);
    const run::TextModel model = run::load(golden_file(name));
    run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
    const run::TextModel back = run::load(folder / "file.gguf");
    check_same_weights(model, back);
    CHECK(same_bits(model.gpt(some_ids(model)), back.gpt(some_ids(model))));
    CHECK(model.tokenizer.encode(kCorpus) == back.tokenizer.encode(kCorpus));
    CHECK(back.gpt.config.norm_eps == model.gpt.config.norm_eps);
    CHECK(back.tokenizer.end_of_text() == model.tokenizer.end_of_text());
  }
}

TEST_CASE("all tokenizers come back, and characters without the row that was added",
          "[gguf_model]") {
  const TempFolder folder;
  const std::string_view corpus = kCorpus;
  const auto characters = data::Tokenizer::of_characters(corpus);
  const data::Tokenizer tokenizers[] = {characters,
                                        characters.padded(characters.vocab_size() + 3),
                                        small_bpe(),
                                        golden_tokenizer("gpt2"),
                                        golden_tokenizer("smollm"),
                                        golden_tokenizer("llama3"),
                                        golden_tokenizer("qwen2"),
                                        data::Tokenizer::gpt2()};
  for (const data::Tokenizer& tokenizer : tokenizers) {
    INFO(tokenizer.kind() << " " << tokenizer.vocab_size());
    for (const bool tied : {true, false}) {
      nn::DecoderConfig config = tiny(tokenizer);
      config.tied = tied;
      const run::TextModel model = model_of(tokenizer, config);
      run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
      const run::TextModel back = run::load(folder / "file.gguf");
      check_same_weights(model, back);
      CHECK(back.tokenizer.vocab_size() == tokenizer.vocab_size());
      CHECK(back.tokenizer.encode(kCorpus) == tokenizer.encode(kCorpus));
      CHECK(std::ranges::equal(back.tokenizer.begin(), tokenizer.begin()));
      CHECK((back.tokenizer.kind() == "char") == (tokenizer.kind() == "char"));
    }
  }
}

TEST_CASE(
    "a tokenizer of Qwen2's that does not normalize texts does not come back as one that does",
    "[gguf_model]") {
  const TempFolder folder;
  std::string json = golden_tokenizer("qwen2").hf_json();
  const auto at = json.find("\"normalizer\"");
  REQUIRE(at != json.npos);
  json.replace(at, json.find('}', at) + 1 - at, "\"normalizer\":null");
  const auto tokenizer = data::Tokenizer::of_hf(json);
  const run::TextModel model = model_of(tokenizer, tiny(tokenizer));
  run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
  const std::string accent = "e\u0301";
  CHECK(run::load(folder / "file.gguf").tokenizer.encode(accent) == tokenizer.encode(accent));
  CHECK(tokenizer.encode(accent) != golden_tokenizer("qwen2").encode(accent));
}

TEST_CASE("the token that is added to end texts is never the likeliest", "[gguf_model]") {
  const TempFolder folder;
  const auto tokenizer = data::Tokenizer::of_characters(std::string_view(kCorpus));
  const run::TextModel model = model_of(tokenizer, tiny(tokenizer));
  run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
  const GgufFile file(folder / "file.gguf");
  const auto V = tokenizer.vocab_size();
  CHECK(std::get<std::int64_t>(file.keys().at("tokenizer.ggml.eos_token_id")) == V);
  const auto& tokens = std::get<std::vector<std::string>>(file.keys().at("tokenizer.ggml.tokens"));
  REQUIRE(std::ssize(tokens) == V + 1);
  CHECK(tokens.back() == "<|endoftext|>");
  const Tensor table = file.read("token_embd.weight");
  REQUIRE(table.shape() == Shape{V + 1, 8});
  const Tensor logits = linear(model.gpt.hidden(some_ids(model)), table);
  for (std::int64_t t = 0; t < 12; ++t) {
    const Tensor row = logits.view({12, V + 1}).rows(t, t + 1);
    double sum = 0, most = -1e30;
    for (std::int64_t i = 0; i < V; ++i) sum += row.at(i), most = std::max(most, row.at(i));
    CHECK(row.at(V) == Approx(sum / static_cast<double>(V)).margin(1e-5));
    CHECK(row.at(V) < most);
  }
}

TEST_CASE("variants that llama.cpp's GPT-2 can express are exported as such", "[gguf_model]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  nn::DecoderConfig separate = tiny(tokenizer), unbiased = separate, wide = separate;
  separate.separate_qkv = true, separate.qkv_bias = false;
  unbiased.bias = false;
  wide.n_inner = 40, wide.norm_eps = 1e-6, wide.tied = false;
  for (const nn::DecoderConfig& config : {separate, unbiased, wide}) {
    const run::TextModel model = model_of(tokenizer, config);
    run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
    const run::TextModel back = run::load(folder / "file.gguf");
    CHECK(difference(back.gpt(some_ids(model)), model.gpt(some_ids(model)), 1e-6, 1e-6) == "");
    CHECK(back.gpt.config.norm_eps == config.norm_eps);
  }
}

TEST_CASE("what GGUF cannot express is refused by name, and nothing is written", "[gguf_model]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  const auto refused = [&](const auto& change, const std::string& expected) {
    nn::DecoderConfig config = tiny(tokenizer);
    change(config);
    CHECK_THROWS_WITH(
        run::export_gguf(model_of(tokenizer, config), folder / "file.gguf", stored_type("f32")),
        ContainsSubstring(expected));
  };
  refused([](auto& c) { c.activation = nn::Activation::gelu_erf; }, "activation gelu-erf");
  refused([](auto& c) { c.activation = nn::Activation::relu; }, "activation relu");
  refused([](auto& c) { c.positions = nn::Positions::rotary; }, "positions rotary");
  refused([](auto& c) { c.norm = nn::NormKind::unbiased; }, "norm unbiased");
  refused([](auto& c) { c.arch = nn::Architecture::llama, c.qk_norm = true, c.qkv_bias = true; },
          "GGUF's qwen3 cannot express a model with qkv_bias true, only with false");
  refused(
      [](auto& c) {
        c.arch = nn::Architecture::llama, c.qk_norm = true;
        c.rope_scaling = nn::RopeScalingKind::llama3, c.rope_factor = 8;
      },
      "GGUF's qwen3 cannot express a model with rope_scaling llama3, only with none");
  refused([](auto& c) { c.arch = nn::Architecture::llama, c.window = 2; },
          "GGUF's llama cannot express a model with window 2, only with 0: llama.cpp");
  auto json = nlohmann::json::parse(golden_tokenizer("gpt2").hf_json());
  const auto refused_tokenizer = [&](const std::string& expected) {
    const auto t = data::Tokenizer::of_hf(json.dump());
    CHECK_THROWS_WITH(
        run::export_gguf(model_of(t, tiny(t)), folder / "file.gguf", stored_type("f32")),
        ContainsSubstring(expected));
  };
  json["normalizer"] = {{"type", "NFC"}};
  refused_tokenizer("does not normalize");
  json["normalizer"] = nullptr;
  json["model"]["ignore_merges"] = true;
  refused_tokenizer("ignore_merges");
  json["model"]["ignore_merges"] = false;
  json["pre_tokenizer"]["use_regex"] = false;
  refused_tokenizer("no name for the tokenizer's pre-tokenizer");
  CHECK(folder.entries() == 0);
}

TEST_CASE("weights are stored in the type that is asked for", "[gguf_model]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  nn::DecoderConfig config = tiny(tokenizer);
  config.n_embd = 32, config.n_inner = 40;  // 40: rows without whole blocks
  const run::TextModel model = model_of(tokenizer, config);
  const auto& types = run::export_format("gguf").types;
  CHECK(names_of(types).starts_with("f32, f16, bf16, q8_0"));
  for (const StoredType* type : types) {
    INFO(type->name);
    run::export_gguf(model, folder / "file.gguf", *type);
    const GgufFile file(folder / "file.gguf");
    CHECK(file.at("token_embd.weight").type == type);
    CHECK(file.at("blk.1.attn_qkv.weight").type == type);
    CHECK(file.at("blk.1.ffn_down.weight").type == (type->block == 1 ? type : &stored_type("f16")));
    CHECK(file.at("blk.1.attn_qkv.bias").type == &stored_type("f32"));
    CHECK(file.at("output_norm.weight").type == &stored_type("f32"));
    CHECK(file.at("position_embd.weight").type == &stored_type("f32"));
    run::load(folder / "file.gguf");
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
  const auto with = [](const std::string& key, const nn::GgufValue& value) {
    Edited e;
    e.keys[key] = value;
    return e.complaint();
  };
  CHECK(Edited().complaint() == "");
  using Text = std::string;
  CHECK_THAT(with("general.architecture", Text("mamba")), ContainsSubstring("'mamba'"));
  CHECK_THAT(with("general.type", Text("adapter")), ContainsSubstring("'adapter'"));
  CHECK_THAT(with("split.count", std::int64_t{2}), ContainsSubstring("one of several files"));
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
  CHECK_THAT(with("tokenizer.ggml.model", Text("llama")), ContainsSubstring("'llama'"));
  CHECK_THAT(with("tokenizer.ggml.pre", Text("default")), ContainsSubstring("'default'"));
  CHECK_THAT(with("tokenizer.ggml.add_eos_token", true), ContainsSubstring("add_eos_token"));
  CHECK_THAT(with("tokenizer.ggml.tokens", std::vector<Text>{"a"}), ContainsSubstring("1 tokens"));
  CHECK_THAT(with("tokenizer.ggml.merges", std::vector<Text>{"a"}), ContainsSubstring("merge 0"));
  Edited edited;
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

TEST_CASE("keys of Llama's family are honoured or refused", "[gguf_model]") {
  const TempFolder folder;
  run::export_gguf(run::load(golden_file("hf_llama")), folder / "good.gguf", stored_type("f32"));
  const GgufFile good(folder / "good.gguf");
  const auto with = [&](const std::string& key, const nn::GgufValue& value) -> std::string {
    GgufKeys keys = good.keys();
    keys[key] = value;
    std::vector<GgufTensor> tensors;
    for (const auto& [name, entry] : good.entries()) {
      tensors.push_back({name, &stored_type("f32"), entry.shape,
                         [&good, tensor = std::string(name)] { return good.read(tensor); }});
    }
    nn::write_gguf(folder / "file.gguf", keys, tensors);
    try {
      run::load(folder / "file.gguf");
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK_THAT(with("llama.rope.scaling.type", std::string("yarn")),
             ContainsSubstring("rope.scaling.type 'yarn'"));
  CHECK_THAT(with("llama.rope.scaling.factor", 8.0),
             ContainsSubstring("rope.scaling.factor scale rotary positions both"));
  CHECK_THAT(with("llama.attention.sliding_window", std::int64_t{1} << 30),
             ContainsSubstring("attention.sliding_window (window)"));
  CHECK_THAT(with("llama.expert_count", std::int64_t{8}), ContainsSubstring("expert_count 8"));
  CHECK_THAT(with("llama.rope.dimension_count", std::int64_t{2}),
             ContainsSubstring("dimension_count 2"));
  CHECK_THAT(with("llama.attention.value_length", std::int64_t{8}),
             ContainsSubstring("value_length 8"));
  CHECK_THAT(with("llama.attention.head_count_kv", std::int64_t{3}),
             ContainsSubstring("n_kv_head"));
  CHECK_THAT(with("tapegrad.rope_factor", 5.0), ContainsSubstring("rope_freqs.weight"));
}

TEST_CASE("linear rotary positions go out and come back, also without a type", "[gguf_model]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  for (const bool qkv_bias : {false, true}) {  // llama and qwen2
    nn::DecoderConfig config = tiny(tokenizer);
    config.arch = nn::Architecture::llama, config.qkv_bias = qkv_bias;
    config.rope_scaling = nn::RopeScalingKind::linear, config.rope_factor = 3;
    const run::TextModel model = model_of(tokenizer, config);
    run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
    const GgufFile file(folder / "file.gguf");
    const std::string prefix = qkv_bias ? "qwen2." : "llama.";
    CHECK(std::get<std::string>(file.keys().at(prefix + "rope.scaling.type")) == "linear");
    const Tensor logits = model.gpt(some_ids(model));
    CHECK(difference(run::load(folder / "file.gguf").gpt(some_ids(model)), logits, 0, 0) == "");
    const auto changed = [&](const auto& change) {
      GgufKeys keys = file.keys();
      change(keys);
      std::vector<GgufTensor> tensors;
      for (const auto& [name, entry] : file.entries()) {
        tensors.push_back({name, &stored_type("f32"), entry.shape,
                           [&file, tensor = std::string(name)] { return file.read(tensor); }});
      }
      nn::write_gguf(folder / "changed.gguf", keys, tensors);
      return run::load(folder / "changed.gguf").gpt.config;
    };
    const auto factor = [&](const auto& change) { return changed(change).rope_factor; };
    CHECK(factor([&](GgufKeys& k) { k.erase(prefix + "rope.scaling.type"); }) == 3);
    CHECK(factor([&](GgufKeys& k) { k[prefix + "rope.scaling.type"] = std::string("none"); }) == 1);
    CHECK(changed([&](GgufKeys& k) {
            k[prefix + "attention.sliding_window"] = std::int64_t{2};
          }).window == 2);
    CHECK(changed([&](GgufKeys& k) {
            k[prefix + "attention.sliding_window"] = std::int64_t{4096};
          }).window == 0);
  }
}
