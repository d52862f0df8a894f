#include "tapegrad/autograd/formats/pickle_writer.h"
#include "tapegrad/autograd/formats/torch_file.h"
#include "tapegrad/run/models/formats/nanogpt.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) { return golden_file("nanogpt/" + name); }

// A folder with one of the golden checkpoints as ckpt.pt.
struct NanoGptFolder {
  TempFolder temp;
  explicit NanoGptFolder(const std::string& checkpoint) {
    fs::copy_file(golden(checkpoint), temp / "ckpt.pt");
  }
  fs::path path() const { return temp / "out"; }
  // Puts the vocabulary somewhere.
  void put_meta(const std::string& place) const {
    fs::create_directories((temp / place).parent_path());
    fs::copy_file(golden("meta_5.pkl"), temp / place);
  }
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// A model of one layer; `tokenizer` gives its vocabulary.
run::TextModel small_model(nn::DecoderConfig c, data::Tokenizer tokenizer) {
  c.vocab_size = tokenizer.vocab_size();
  c.block_size = 8;
  c.n_layer = 1;
  c.n_head = c.arch == nn::Architecture::llama ? 1 : 2;
  c.n_embd = 4;
  static Rng rng(5);
  nn::Params params(rng);
  nn::Decoder model(params, c);
  return {params, std::move(model), std::move(tokenizer)};
}

run::Exported export_to(const run::TextModel& model, const fs::path& folder) {
  return run::export_model(model, run::export_format("nanogpt"), folder, stored_type("f32"));
}

nn::DecoderConfig expressible() { return {.activation = nn::Activation::gelu_erf}; }
data::Tokenizer letters() { return data::Tokenizer::of_characters("déjà vu\n"); }

}  // namespace

TEST_CASE("nanoGPT's checkpoints compute what PyTorch computes", "[nanogpt]") {
  const SafeTensors expected = load_safetensors(golden("expected.safetensors").string());
  for (const std::string name : {"ckpt", "plain", "old"}) {
    INFO(name);
    const NanoGptFolder folder(name + ".pt");
    folder.put_meta("meta.pkl");
    const run::TextModel model = run::load(folder.temp / "ckpt.pt");
    CHECK(difference(model.gpt(expected.at("input_ids")), expected.at(name), 1e-5, 2e-5) == "");
    CHECK(model.gpt.config.with_bias() == (name != "plain"));
    CHECK(model.gpt.config.tied);
    CHECK(model.gpt.config.dropout == 0);
    CHECK(model.tokenizer.decode(model.tokenizer.encode("zwei Füße")) == "zwei Füße");
    // A vocabulary that is smaller than the model gets tokens without text.
    CHECK(model.tokenizer.vocab_size() == model.gpt.config.vocab_size);
  }
}

TEST_CASE("vocabularies of all protocols of pickle are the same", "[nanogpt]") {
  const auto characters = data::Tokenizer::of_characters("Ein Fuß, zwei Füße; 3 日本語.\n");
  for (const int protocol : {2, 3, 4, 5}) {
    const auto read = run::read_nanogpt_meta(golden(fmt::format("meta_{}.pkl", protocol)));
    REQUIRE(read.vocab_size() == characters.vocab_size());
    for (data::Token t = 0; t < read.vocab_size(); ++t) {
      CHECK(read.token_bytes(t) == characters.token_bytes(t));
    }
  }
}

TEST_CASE("a vocabulary is found where nanoGPT has it", "[nanogpt]") {
  for (const std::string place : {"meta.pkl", "data/tiny_char/meta.pkl"}) {
    const NanoGptFolder folder("ckpt.pt");
    CHECK_THAT(refusal([&] { run::load(folder.temp / "ckpt.pt"); }),
               ContainsSubstring("no meta.pkl") && ContainsSubstring("tiny_char"));
    folder.put_meta(place);
    CHECK(run::load(folder.temp / "ckpt.pt").tokenizer.kind() == "char");
    CHECK(run::load(folder.temp.path()).tokenizer.kind() == "char");
  }
  const NanoGptFolder folder("plain.pt");
  fs::create_directory(folder.path());
  fs::rename(folder.temp / "ckpt.pt", folder.path() / "ckpt.pt");
  folder.put_meta("data/tiny_char/meta.pkl");
  CHECK(run::load(folder.path()).tokenizer.kind() == "char");
}

TEST_CASE("an exported model comes back with the same bits", "[nanogpt]") {
  nn::DecoderConfig without_bias = expressible(), without_qkv = expressible();
  without_bias.bias = false;
  without_qkv.qkv_bias = false;
  for (const nn::DecoderConfig& config : {expressible(), without_bias}) {
    const NanoGptFolder folder("ckpt.pt");
    const run::TextModel model = small_model(config, letters());
    export_to(model, folder.path());
    const run::TextModel back = run::load(folder.path());
    REQUIRE(back.params.tensors().size() == model.params.tensors().size());
    for (std::size_t i = 0; i < back.params.tensors().size(); ++i) {
      CHECK(back.params.tensors()[i].first == model.params.tensors()[i].first);
      CHECK(same_bits(back.params.tensors()[i].second, model.params.tensors()[i].second));
    }
    CHECK(back.gpt.config.activation == nn::Activation::gelu_erf);
    CHECK(back.tokenizer.decode(back.tokenizer.encode("déjà vu\n")) == "déjà vu\n");
    CHECK_THAT(refusal([&] { export_to(model, folder.path()); }),
               ContainsSubstring("choose another folder"));
  }
  // What nanoGPT has in another form.
  nn::DecoderConfig separate = expressible();
  separate.separate_qkv = true;
  for (const nn::DecoderConfig& config : {without_qkv, separate}) {
    const NanoGptFolder folder("ckpt.pt");
    const run::TextModel model = small_model(config, letters());
    export_to(model, folder.path());
    const Tensor ids = Tensor::from<std::int32_t>({1, 3, 2, 5}, {1, 4});
    CHECK(difference(run::load(folder.path()).gpt(ids), model.gpt(ids), 1e-6, 1e-6) == "");
  }
}

TEST_CASE("an export tells what was written, and where nanoGPT looks for it", "[nanogpt]") {
  const NanoGptFolder folder("ckpt.pt");
  const auto use_of = [](const fs::path& path) {
    return "sample.py --out_dir=" + path.string() + " --device=cpu of nanoGPT";
  };
  const fs::path mine = folder.temp / "mine", gpt2 = folder.temp / "gpt2";
  const run::Exported characters =
      export_to(small_model(expressible(), letters()), mine.string() + "/");
  CHECK(characters.files == std::vector<std::string_view>{"meta.pkl", "ckpt.pt"});
  CHECK(characters.use == use_of(mine) + ", once " + (mine / "meta.pkl").string() +
                              " is copied to data/mine/ of nanoGPT");
  const run::Exported alone = export_to(small_model(expressible(), data::Tokenizer::gpt2()), gpt2);
  CHECK(alone.files == std::vector<std::string_view>{"ckpt.pt"});
  CHECK(alone.use == use_of(gpt2));
}

TEST_CASE("GPT-2's vocabulary needs no file, padded or not", "[nanogpt]") {
  for (const std::int64_t size : {50257, 50304}) {
    const NanoGptFolder folder("ckpt.pt");
    const run::TextModel model = small_model(expressible(), data::Tokenizer::gpt2().padded(size));
    export_to(model, folder.path());
    CHECK(!fs::exists(folder.path() / "meta.pkl"));
    const run::TextModel back = run::load(folder.path());
    CHECK(back.tokenizer.kind() == "gpt2");
    CHECK(back.tokenizer.vocab_size() == size);
    // And in a run folder.
    run::save_model(folder.temp / "run", back);
    CHECK(run::load(folder.temp / "run").tokenizer.vocab_size() == size);
  }
}

TEST_CASE("a model that nanoGPT does not have is refused by name, and nothing is written",
          "[nanogpt]") {
  const auto refused = [](const auto& change, const std::string& expected) {
    const TempFolder folder;
    nn::DecoderConfig config = expressible();
    change(config);
    INFO(expected);
    CHECK_THAT(refusal([&] { export_to(small_model(config, letters()), folder / "out"); }),
               ContainsSubstring(expected));
    CHECK(folder.entries() == 0);
  };
  refused([](auto& c) { c.activation = nn::Activation::gelu; },
          "activation gelu, only with gelu-erf");
  refused([](auto& c) { c.activation = nn::Activation::relu; }, "activation relu");
  refused([](auto& c) { c.activation = nn::Activation::relu2; }, "activation relu2");
  refused([](auto& c) { c.residual_scalars = true; }, "residual_scalars true");
  refused([](auto& c) { c.ngrams = 2; }, "ngrams 2");
  refused([](auto& c) { c.positions = nn::Positions::rotary; }, "positions rotary");
  refused([](auto& c) { c.norm = nn::NormKind::unbiased; }, "norm unbiased");
  refused([](auto& c) { c.norm_eps = 1e-6; }, "norm_eps 1e-06");
  refused([](auto& c) { c.tied = false; }, "tied false");
  refused([](auto& c) { c.n_inner = 12; }, "n_inner 12");
  refused([](auto& c) { c.bias = false, c.qkv_bias = true; }, "qkv_bias true");
  refused([](auto& c) { c = {.arch = nn::Architecture::llama}; }, "arch llama");
  const TempFolder folder;
  const auto bytes = data::Tokenizer::train_bpe("the then there the then there", 260);
  CHECK_THAT(refusal([&] { export_to(small_model(expressible(), bytes), folder / "out"); }),
             ContainsSubstring("kind bpe"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("checkpoints of other programs are refused with the reason", "[nanogpt]") {
  const TempFolder folder;
  const auto complaint = [&](const std::function<void(PickleWriter&)>& write) {
    PickleWriter w;
    w.begin_dict();
    write(w);
    w.end_dict();
    const std::string pickle = w.take();
    const ZipFile files[] = {{"a/data.pkl", pickle}};
    write_stored_zip(folder / "file.pt", files);
    return refusal([&] { run::load(folder / "file.pt"); });
  };
  CHECK_THAT(complaint([](auto&) {}), ContainsSubstring("no dicts 'model' and 'model_args'"));
  const auto with_args = [&](const std::function<void(PickleWriter&)>& write) {
    return complaint([&](PickleWriter& w) {
      w.text("model");
      w.begin_dict();
      w.end_dict();
      w.text("model_args");
      w.begin_dict();
      write(w);
      w.end_dict();
    });
  };
  CHECK_THAT(with_args([](auto&) {}), ContainsSubstring("no 'n_layer'"));
  CHECK_THAT(with_args([](auto& w) { w.text("n_kv_head"), w.integer(1); }),
             ContainsSubstring("'n_kv_head'"));
  CHECK_THAT(with_args([](auto& w) { w.text("n_layer"), w.text("2"); }),
             ContainsSubstring("n_layer must be an int, not a str"));
  const auto broken_meta = [&](const std::string& bytes) {
    return refusal([&] { run::read_nanogpt_meta(folder.put("meta.pkl", bytes)); });
  };
  CHECK_THAT(broken_meta("\x80\x02}."), ContainsSubstring("no dict 'itos'"));
  const std::string itos = "\x80\x02}X\4" + std::string("\0\0\0itos", 7) + "}(";
  const std::string nul(1, '\0'), a = "X\1" + std::string(3, '\0') + "a";
  CHECK_THAT(broken_meta(itos + "K\1" + a + "us."), ContainsSubstring("not 0 to 0"));
  CHECK_THAT(broken_meta(itos + "K" + nul + a + "K\1" + a + "us."), ContainsSubstring("ascending"));
  CHECK(broken_meta(itos + "K" + nul + a + "us.") == "");
}
