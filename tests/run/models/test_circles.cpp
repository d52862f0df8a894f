// Models go in and out again: weights, tokenizers and settings of models, in each format. The
// tables say what a way through a format does not keep, so that a change shows.

#include <set>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/tests/run/models/settings_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

using Names = std::vector<std::string>;

json json_in(const fs::path& file) { return json::parse(TempFolder::get(file)); }

// A tensor as it is stored.
std::vector<std::byte> bytes_of(const TensorSource& source, const std::string& tensor) {
  const StoredTensor stored = source.stored(tensor);
  std::vector<std::byte> bytes(stored.bytes());
  REQUIRE(stored.read(0, bytes.data(), bytes.size()));
  return bytes;
}

// The members of an object of JSON that another one lacks or has otherwise.
void list_lost(const std::string& where, const json& before, const json& after, Names& lost) {
  for (const auto& [key, value] : before.items()) {
    if (!after.contains(key)) {
      lost.push_back(where + key);
    } else if (after[key] != value) {
      lost.push_back(where + key + " becomes " + after[key].dump());
    }
  }
}

// The parts that a folder of Hugging Face's has lost: files, or tensors and members of the config.
Names lost_files(const fs::path& before, const fs::path& after) {
  Names lost;
  for (const auto& entry : fs::directory_iterator(before)) {
    const std::string name = entry.path().filename();
    if (name == "config.json") {
      list_lost("config.json: ", json_in(entry.path()), json_in(after / name), lost);
    } else if (name == "model.safetensors") {
      const auto source = open_safetensors((before / name).string()),
                 target = open_safetensors((after / name).string());
      for (const auto& [tensor, type] : source->entries()) {
        if (bytes_of(*source, tensor) != bytes_of(*target, tensor)) lost.push_back(tensor);
      }
    } else if (!fs::exists(after / name)) {
      lost.push_back(name);
    } else if (TempFolder::get(entry.path()) != TempFolder::get(after / name)) {
      lost.push_back(name + " is another");
    }
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

// The same of GGUF: keys with their types, and tensors.
Names lost_keys(const fs::path& before, const fs::path& after) {
  const GgufFile source(before), target(after);
  Names lost;
  for (const auto& [key, value] : source.keys()) {
    if (target.keys().count(key) == 0) {
      lost.push_back(key);
    } else if (source.stored_value(key) != target.stored_value(key)) {
      lost.push_back(key + " is another");
    }
  }
  for (const auto& [tensor, entry] : source.entries()) {
    if (bytes_of(source, tensor) != bytes_of(target, tensor)) lost.push_back(tensor);
  }
  return lost;
}

bool same_file(const fs::path& a, const fs::path& b) {
  return TempFolder::get(a) == TempFolder::get(b);
}
void check_same_files(const fs::path& before, const fs::path& after) {
  for (const auto& entry : fs::directory_iterator(before)) {
    INFO(entry.path());
    CHECK(same_file(entry.path(), after / entry.path().filename()));
  }
}

// A run's folder that has no run: what tapegrad merge makes.
run::TextModel kept(const run::TextModel& model, const fs::path& folder) {
  run::save_model(folder, model);
  return run::load(folder);
}

}  // namespace

TEST_CASE("a way through Hugging Face's layout keeps files byte for byte", "[circles]") {
  const TempFolder folder;
  Files files = kSettings;
  files["README.md"] = "A model.";
  files["vocab.json"] = "{}";
  const fs::path in = put_hf_model(folder, files);
  // The config is written anew, of what changes the result. "bos" is what the settings say.
  const Names lost = {"README.md", "config.json: pad_token_id", "config.json: pretraining_tp",
                      "config.json: transformers_version", "vocab.json"};
  export_as("hf", run::load(in), folder / "out");
  CHECK(lost_files(in, folder / "out") == lost);
  export_as("hf", kept(run::load(in), folder / "kept"), folder / "of-kept");
  CHECK(lost_files(in, folder / "of-kept") == lost);
  // What was written here loses nothing.
  export_as("hf", run::load(folder / "out"), folder / "again");
  CHECK(lost_files(folder / "out", folder / "again") == Names{});
}

TEST_CASE("a way through GGUF keeps the keys of model and tokenizer with their types",
          "[circles]") {
  const TempFolder folder;
  const fs::path in = put_gguf_model(folder);
  const Names lost = {"quantize.imatrix.file"};
  export_as("gguf", run::load(in), folder / "out.gguf");
  CHECK(lost_keys(in, folder / "out.gguf") == lost);
  export_as("gguf", kept(run::load(in), folder / "kept"), folder / "of-kept.gguf");
  CHECK(lost_keys(in, folder / "of-kept.gguf") == lost);
  CHECK(same_file(folder / "out.gguf", folder / "of-kept.gguf"));
  export_as("gguf", run::load(folder / "out.gguf"), folder / "again.gguf");
  CHECK(same_file(folder / "out.gguf", folder / "again.gguf"));
}

TEST_CASE("weights come back in the type that they were written in", "[circles]") {
  const TempFolder folder;
  const run::TextModel model = run::load(put_hf_model(folder));
  for (const std::string format : {"hf", "gguf", "llm.c"}) {
    for (const StoredType* type : run::export_format(format).types) {
      const std::string place = format + std::string(type->name), again = place + "-again";
      INFO(place);
      const run::TextModel& written =
          format == "llm.c" ? run::load(golden_file("llmc/gpt2_124M.bin")) : model;
      export_as(format, written, folder / place, *type);
      export_as(format, run::load(folder / place), folder / again, *type);
      if (fs::is_directory(folder / place)) {
        check_same_files(folder / place, folder / again);
      } else {
        CHECK(same_file(folder / place, folder / again));
      }
    }
  }
}

TEST_CASE("a GGUF whose end was added comes back with that end", "[circles]") {
  const TempFolder folder;
  const auto characters = data::Tokenizer::of_characters(kCorpus);
  export_as("gguf", model_of(characters, tiny(characters)), folder / "in.gguf");
  export_as("gguf", kept(run::load(folder / "in.gguf"), folder / "kept"), folder / "out.gguf");
  CHECK(same_file(folder / "in.gguf", folder / "out.gguf"));
  // Hugging Face's files do without the row that was added for it.
  export_as("hf", run::load(folder / "in.gguf"), folder / "hf");
  CHECK(json_in(folder / "hf/generation_config.json")["bos_token_id"].is_null());
  CHECK_FALSE(json_in(folder / "hf/tokenizer_config.json").contains("bos_token"));
  export_as("gguf", run::load(folder / "hf"), folder / "back.gguf");
  CHECK(run::load(folder / "back.gguf").tokenizer.vocab_size() == characters.vocab_size());
}

TEST_CASE("a chat template that JSON cannot have is refused before anything is written",
          "[circles]") {
  const TempFolder folder;
  const fs::path in = put_hf_model(folder);
  fs::remove(in / "tokenizer_config.json");
  const auto [text, what] = GENERATE(std::pair(std::string("a \xFF b"), "is not UTF-8"),
                                     std::pair(std::string(2 << 20, 'x'), "can be written"));
  std::ofstream(in / "chat_template.jinja", std::ios::binary) << text;
  const fs::path out = folder / "out";
  CHECK_THROWS_WITH(export_as("hf", run::load(in), out), ContainsSubstring(what));
  CHECK_FALSE(fs::exists(out / "model.safetensors"));
}

TEST_CASE("from Hugging Face's layout to GGUF and back go chat templates, roles and numbers",
          "[circles]") {
  const TempFolder folder;
  const fs::path in = put_hf_model(folder);
  export_as("gguf", kept(run::load(in), folder / "kept"), folder / "out.gguf");
  const GgufFile file(folder / "out.gguf");
  CHECK(file.keys().at("tokenizer.chat_template") == GgufValue(kChat + "\r\n\n"));
  CHECK(file.keys().at("tokenizer.ggml.padding_token_id") == GgufValue(std::int64_t{400}));
  CHECK(file.keys().at("tokenizer.ggml.mask_token_id") == GgufValue(std::int64_t{400}));
  CHECK(file.keys().at("tokenizer.ggml.bos_token_id") == GgufValue(std::int64_t{0}));
  CHECK(file.keys().at("general.sampling.temp") == GgufValue(0.6));
  CHECK(file.keys().at("general.sampling.top_k") == GgufValue(std::int64_t{20}));
  export_as("hf", run::load(folder / "out.gguf"), folder / "back");
  const json config = json_in(folder / "back/tokenizer_config.json"),
             generation = json_in(folder / "back/generation_config.json");
  CHECK(config["chat_template"] == kChat + "\r\n\n");
  CHECK(config["pad_token"] == "<tool>");
  CHECK(config["bos_token"] == "<|endoftext|>");
  CHECK(generation["temperature"] == 0.6);
  const json tokenizer = json_in(folder / "back/tokenizer.json");
  for (const json& token : tokenizer.at("added_tokens")) {
    CHECK(token.size() == 7);  // all of which Hugging Face's reader wants
  }
  // GGUF has one token that ends texts, and no place for what it does not know.
  Names lost;
  list_lost("", json_in(in / "tokenizer_config.json"), config, lost);
  list_lost("", json_in(in / "generation_config.json"), generation, lost);
  CHECK(lost == Names{"bos_token becomes \"<|endoftext|>\"",
                      "chat_template becomes " + config["chat_template"].dump(),
                      "model_max_length becomes 24",
                      "tokenizer_class becomes \"PreTrainedTokenizerFast\"", "unk_token", "zebra",
                      "eos_token_id becomes 0", "strange"});
}

TEST_CASE("from GGUF to Hugging Face's layout and back go chat templates, roles and numbers",
          "[circles]") {
  const TempFolder folder;
  const fs::path in = put_gguf_model(folder);
  export_as("hf", kept(run::load(in), folder / "kept"), folder / "out");
  const json config = json_in(folder / "out/tokenizer_config.json");
  CHECK(config["chat_template"] == json::array({{{"name", "default"}, {"template", kChat}},
                                                {{"name", "tool_use"}, {"template", "tools"}}}));
  CHECK(json_in(folder / "out/generation_config.json")["temperature"] == 0.625);
  export_as("gguf", run::load(folder / "out"), folder / "back.gguf");
  const GgufFile before(in), after(folder / "back.gguf");
  for (const char* key :
       {"tokenizer.chat_template", "tokenizer.chat_template.tool_use", "tokenizer.chat_templates",
        "tokenizer.ggml.padding_token_id", "general.sampling.temp", "general.sampling.top_k"}) {
    INFO(key);
    CHECK(before.keys().at(key) == after.keys().at(key));
  }
  // A token that has a role is a special one in Hugging Face's layout, as it is to transformers.
  CHECK(lost_keys(in, folder / "back.gguf") ==
        Names{"general.name", "general.sampling.top_k is another", "general.strange",
              "general.tags", "quantize.imatrix.file", "tokenizer.ggml.scores",
              "tokenizer.ggml.strange", "tokenizer.ggml.token_type is another"});
}

TEST_CASE("a tokenizer that an older version kept of a GGUF file is still the file's",
          "[circles]") {
  const TempFolder folder;
  const fs::path in = put_gguf_model(folder);
  run::save_model(folder / "run", run::load(in));
  // Added tokens were not in the vocabulary.
  json older = json_in(folder / "run/tokenizer.json");
  for (const json& added : older.at("added_tokens")) {
    REQUIRE(older.at("model").at("vocab").erase(added.at("content").get<std::string>()) == 1);
  }
  folder.put("run/tokenizer.json", older.dump());
  export_as("gguf", run::load(folder / "run"), folder / "out.gguf");
  CHECK(lost_keys(in, folder / "out.gguf") == Names{"quantize.imatrix.file"});
}

TEST_CASE("llm.c's and nanoGPT's files have no place for settings", "[circles]") {
  const TempFolder folder;
  const run::TextModel llmc = run::load(golden_file("llmc/gpt2_124M.bin"));
  export_as("llm.c", llmc, folder / "llmc");
  for (const char* file : {"gpt2_124M.bin", "gpt2_tokenizer.bin"}) {
    CHECK(TempFolder::get(folder / "llmc" / file) == TempFolder::get(golden_file("llmc") / file));
  }
  run::TextModel chat = llmc;
  chat.settings.files.insert(kSettings.begin(), kSettings.end());
  export_as("llm.c", chat, folder / "chat");
  CHECK(run::load(folder / "chat").settings.files.empty());
  CHECK(TempFolder::get(folder / "chat/gpt2_124M.bin") ==
        TempFolder::get(folder / "llmc/gpt2_124M.bin"));

  fs::create_directories(folder / "in");
  fs::copy(golden_file("nanogpt/ckpt.pt"), folder / "in/ckpt.pt");
  fs::copy(golden_file("nanogpt/meta_4.pkl"), folder / "in/meta.pkl");
  const run::TextModel nano = run::load(folder / "in");
  export_as("nanogpt", nano, folder / "a/nano");
  const run::TextModel again = run::load(folder / "a/nano");
  for (const auto& [name, t] : nano.params.tensors()) {
    INFO(name);
    for (const auto& [other, u] : again.params.tensors()) {
      if (name == other) CHECK(same_bits(t, u));
    }
  }
  CHECK(again.tokenizer.hf_json() == nano.tokenizer.hf_json());
  export_as("nanogpt", again, folder / "b/nano");  // whose name is in the file
  check_same_files(folder / "a/nano", folder / "b/nano");
}
