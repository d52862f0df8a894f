#include <cstring>

#include "tapegrad/run/models/formats/llmc.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

namespace fs = std::filesystem;

const fs::path kGolden = golden_file("llmc");
const std::string kModel = "gpt2_124M.bin", kTokenizer = "gpt2_tokenizer.bin";

void check_logits(const run::TextModel& model, const std::string& name) {
  const auto expected = golden_json("llmc/expected.json");
  const auto ids = expected.at("ids").get<std::vector<std::int32_t>>();
  const auto logits = expected.at(name).get<std::vector<float>>();
  const auto shape = expected.at("shape").get<std::vector<std::int64_t>>();
  CHECK(difference(model.gpt(Tensor::from(ids, {shape[0], shape[1]})),
                   Tensor::from(logits, {shape[0], shape[1], shape[2]}), 1e-5, 1e-5) == "");
}

// The golden model, with one number of its header changed, or other bytes.
struct LlmcFolder {
  TempFolder temp;
  std::string model = TempFolder::get(kGolden / kModel);
  LlmcFolder() { fs::copy_file(kGolden / kTokenizer, temp / kTokenizer); }
  void set(std::size_t place, std::int32_t value) {
    std::memcpy(model.data() + 4 * place, &value, sizeof value);
  }
  void check_refused(const std::string& message) const {
    temp.put(kModel, model);
    INFO(message);
    CHECK_THROWS_WITH(run::load(temp / kModel), ContainsSubstring(message));
  }
};

}  // namespace

TEST_CASE("a model of llm.c's computes what PyTorch computes", "[llmc]") {
  for (const fs::path& path : {kGolden, kGolden / kModel}) {
    REQUIRE(run::is_llmc_file(path));
    const run::TextModel model = run::load(path);
    check_logits(model, "f32");
    CHECK(model.tokenizer.kind() == "char");
    CHECK(model.tokenizer.encode("中é").size() == 2);
    CHECK(model.gpt.config.vocab_size == 11);  // without the padding
  }
  check_logits(run::load(kGolden / "bf16.bin"), "bf16");
  CHECK(!run::is_llmc_file(kGolden / kTokenizer));
  CHECK(!run::is_llmc_file(kGolden / "missing"));
}

TEST_CASE("a model goes to llm.c's files and back with the same bits", "[llmc]") {
  const TempFolder folder;
  const run::ExportFormat& format = run::export_format("llm.c");
  const run::TextModel model = run::load(kGolden);
  run::export_model(model, format, folder / "f32", stored_type("f32"));
  CHECK(TempFolder::get(folder / "f32" / kModel) == TempFolder::get(kGolden / kModel));
  CHECK(TempFolder::get(folder / "f32" / kTokenizer) == TempFolder::get(kGolden / kTokenizer));
  run::export_model(model, format, folder / "bf16", stored_type("bf16"));
  CHECK(TempFolder::get(folder / "bf16" / kModel) == TempFolder::get(kGolden / "bf16.bin"));
  CHECK_THROWS_WITH(run::export_model(model, format, folder / "f16", stored_type("f16")),
                    ContainsSubstring("cannot store f16"));
}

TEST_CASE("what llm.c cannot express is refused by name", "[llmc]") {
  const run::TextModel model = run::load(kGolden);
  const auto refused = [&](const std::function<void(nn::DecoderConfig&)>& change,
                           const std::string& message) {
    nn::DecoderConfig config = model.gpt.config;
    change(config);
    Rng rng(1);
    const nn::Params params(rng);
    const run::TextModel other{params, nn::Decoder(params, config), model.tokenizer};
    const TempFolder folder;
    INFO(message);
    CHECK_THROWS_WITH(
        run::export_model(other, run::export_format("llm.c"), folder / "out", stored_type("f32")),
        ContainsSubstring(message));
    CHECK(folder.entries() == 0);
  };
  refused([](auto& c) { c.tied = false; }, "tied false");
  refused([](auto& c) { c.positions = nn::Positions::rotary; }, "positions rotary");
  refused([](auto& c) { c.norm = nn::NormKind::unbiased; }, "norm unbiased");
  refused([](auto& c) { c.activation = nn::Activation::relu; }, "activation relu");
  refused([](auto& c) { c.activation = nn::Activation::relu2; }, "activation relu2");
  refused([](auto& c) { c.residual_scalars = true; }, "residual_scalars true");
  refused([](auto& c) { c.ngrams = 2; }, "ngrams 2");
  refused([](auto& c) { c.activation = nn::Activation::gelu_erf; }, "activation gelu-erf");
  refused([](auto& c) { c.n_inner = 20; }, "n_inner 20, only with 32");
  refused([](auto& c) { c.norm_eps = 1e-6; }, "norm_eps 1e-06");
  refused([](auto& c) { c.arch = nn::Architecture::llama; }, "arch llama");
}

TEST_CASE("broken models of llm.c's are refused, and take no memory", "[llmc]") {
  const std::vector<std::tuple<std::size_t, std::int32_t, std::string>> faults = {
      {1, 1, "version 1 of llm.c's models is not supported"},
      {2, -1, "block_size"},
      {2, 9, "but the file has"},
      {3, 1 << 24, "rows for a vocabulary of"},
      {3, 0, "vocab_size"},
      {4, 4096, "layers in"},
      {4, 1, "but the file has"},
      {5, 3, "n_embd 8 is not divisible by n_head 3"},
      {6, 1 << 20, "but the file has"},
      {7, 10, "10 rows for a vocabulary of 11"},
      {7, INT32_MAX, "rows for a vocabulary"}};
  for (const auto& [place, value, message] : faults) {
    LlmcFolder folder;
    folder.set(place, value);
    folder.check_refused(message);
  }
  LlmcFolder folder;
  folder.model += "x";
  folder.check_refused("but the file has 12417");
  folder.model.resize(12000);
  folder.check_refused("but the file has 12000");
}

TEST_CASE("a tokenizer of llm.c's that does not fit is refused", "[llmc]") {
  LlmcFolder folder;
  fs::remove(folder.temp / kTokenizer);
  folder.check_refused("the vocabulary of 11 tokens is not GPT-2's");
  const std::string good = TempFolder::get(kGolden / kTokenizer);
  const auto with = [&](std::size_t place, std::int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 4 * place, &value, sizeof value);
    return bytes;
  };
  const std::vector<std::pair<std::string, std::string>> faults = {
      {good.substr(0, 100), "100 bytes are too few"},
      {with(0, 1), "does not begin as"},
      {with(1, 3), "version 3 is not supported"},
      {with(2, INT32_MAX), "tokens in 28 bytes"},
      {with(2, -1), "-1 tokens"},
      {with(2, 10), "5 bytes are left"},
      {good.substr(0, good.size() - 1), "token 10 is not whole"}};
  for (const auto& [bytes, message] : faults) {
    folder.temp.put(kTokenizer, bytes);
    folder.check_refused(message);
  }
  folder.temp.put(kTokenizer, good);
  CHECK_NOTHROW(run::load(folder.temp / kModel));
  // By another name it is found, too, if there is one of them.
  fs::rename(folder.temp / kTokenizer, folder.temp / "my_tokenizer.bin");
  CHECK_NOTHROW(run::load(folder.temp / kModel));
  folder.temp.put("other_tokenizer.bin", good);
  folder.check_refused("which of the tokenizers");
}
