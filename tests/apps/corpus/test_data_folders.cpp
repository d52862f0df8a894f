// Training from a folder that was prepared, as the programs see it.

#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/data_folder.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

constexpr std::size_t kShardTokens = 700;

// The arguments of `tiny_run`, with the folder's own tokenizer.
Args run_on(const Args& text, const std::filesystem::path& out_dir, int iters) {
  Args args = tiny_run("", out_dir, iters);
  const auto remove = [&](const std::string& option) {
    const auto at = std::find(args.begin(), args.end(), option);
    args.erase(at, at + 2);
  };
  remove("--corpus");
  remove("--tokenizer");
  return text + args;
}

std::vector<data::ShardInfo> write_part(const TempFolder& folder, const std::string& name,
                                        std::span<const data::Token> tokens,
                                        data::TokenFormat format, int bits) {
  std::vector<data::ShardInfo> shards;
  while (!tokens.empty()) {
    const auto some = tokens.first(std::min(kShardTokens, tokens.size()));
    data::ShardWriter writer(folder / fmt::format("data/{}_{:06}.bin", name, shards.size()), format,
                             bits);
    writer.write(some);
    shards.push_back(writer.finish());
    tokens = tokens.subspan(some.size());
  }
  return shards;
}

// The tiny text, divided as train-gpt divides one document, and its characters in shards.
struct PreparedText {
  TempFolder folder;
  std::filesystem::path corpus, data = folder / "data";
  data::Tokenizer tokenizer;
  explicit PreparedText(
      data::TokenFormat format = data::TokenFormat::nanogpt,
      const data::Tokenizer& made_by = data::Tokenizer::of_characters(tiny_text()))
      : corpus(folder.put("text.txt", tiny_text())), tokenizer(made_by) {
    std::filesystem::create_directory(data);
    const std::string text = tiny_text();
    const data::TextSplit split = data::split_text(text, 1 - 0.1);
    data::DataInfo info;
    info.format = format;
    const int bits = data::bits_for(tokenizer.vocab_size());
    info.train.shards = write_part(folder, "train", tokenizer.encode(split.train), format, bits);
    info.val.shards = write_part(folder, "val", tokenizer.encode(split.val), format, bits);
    info.source.name = "text.txt";
    data::write_data_json(data, info, tokenizer);
  }
  std::filesystem::path run(const std::string& name) const { return folder / name; }
  Result train(const std::string& name, int iters, const Args& more = {}) const {
    return ::train(run_on({"--data", data}, run(name), iters) + more);
  }
};

std::string losses(const Result& r) {
  std::istringstream lines(r.out);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    const auto loss = line.find("loss");
    if (loss != std::string::npos) found += line.substr(loss, line.find(',') - loss) + "\n";
  }
  return found;
}

// Flips a bit of the file's byte.
void change(const std::filesystem::path& file, std::size_t byte) {
  std::string bytes = TempFolder::get(file);
  bytes[byte] = static_cast<char>(bytes[byte] ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("a run on shards is the run on the same tokens in memory, bit for bit",
          "[data-folders]") {
  for (const auto format : {data::TokenFormat::nanogpt, data::TokenFormat::llmc}) {
    for (const Args& more : {Args{}, Args{"--batches", "epochs", "--stride", "7"}}) {
      const PreparedText text(format);
      const Result on_shards = text.train("shards", 8, more);
      check_ended_well(on_shards);
      const Result in_memory = train(tiny_run(text.corpus, text.run("memory"), 8) + more);
      check_ended_well(in_memory);
      CHECK(same_model(text.run("shards"), text.run("memory")));
      CHECK(losses(on_shards) == losses(in_memory));
      CHECK(losses(on_shards).find("loss") == 0);
    }
  }
}

TEST_CASE("a run on shards that is resumed ends as one that never stopped", "[data-folders]") {
  const PreparedText text;
  check_ended_well(text.train("whole", 10));
  check_ended_well(text.train("halves", 5));
  CHECK(!std::filesystem::exists(text.run("halves") / "text.txt"));
  check_ended_well(train(resume_run(text.run("halves"), 10) + Args{"--no-sample"}));
  CHECK(same_model(text.run("whole"), text.run("halves")));
  // Where the folder has gone to another place.
  check_ended_well(text.train("moved", 5));
  std::filesystem::rename(text.data, text.folder / "elsewhere");
  check_error_of("train-gpt", train(resume_run(text.run("moved"), 10)), 1, text.data.string());
  check_ended_well(train(resume_run(text.run("moved"), 10) +
                         Args{"--no-sample", "--data", text.folder / "elsewhere"}));
  CHECK(same_model(text.run("whole"), text.run("moved")));
  // --corpus names the folder as it did when the run began, or a new place of it.
  check_ended_well(train(run_on({"--corpus", text.folder / "elsewhere"}, text.run("corpus"), 5)));
  std::filesystem::rename(text.folder / "elsewhere", text.data);
  check_ended_well(
      train(resume_run(text.run("corpus"), 10) + Args{"--no-sample", "--corpus", text.data}));
  CHECK(same_model(text.run("whole"), text.run("corpus")));
}

TEST_CASE("data that changed since the run began is refused by name", "[data-folders]") {
  const PreparedText text;
  check_ended_well(text.train("run", 2));
  const auto shard = text.data / "train_000001.bin";
  const std::string before = TempFolder::get(text.run("run") / "model.safetensors");
  const auto refused = [&](const std::string& expected) {
    check_error_of("train-gpt", train(resume_run(text.run("run"), 4)), 1, expected);
    check_error_of("train-gpt", text.train("new", 2), 1, expected);
  };
  change(shard, 2);
  refused(shard.string() + ": its contents have changed");
  change(shard, 2);
  std::filesystem::resize_file(shard, 100);
  refused(shard.string() + ": it has 50 tokens");
  std::filesystem::remove(shard);
  refused(shard.string());
  CHECK(TempFolder::get(text.run("run") / "model.safetensors") == before);
  // Prepared anew, of another text.
  std::filesystem::remove_all(text.data);
  const PreparedText other(data::TokenFormat::llmc);
  check_error_of("train-gpt", train(resume_run(text.run("run"), 4) + Args{"--data", other.data}), 1,
                 "Resume it with the same --data");
}

TEST_CASE("ids of another tokenizer, or of none, are refused by name", "[data-folders]") {
  const PreparedText text;
  check_ended_well(text.train("run", 2));
  const std::string letters = tiny_text() + "XYZ";
  const PreparedText other(data::TokenFormat::nanogpt, data::Tokenizer::of_characters(letters));
  check_error_of("train-gpt",
                 train({"--init-from", text.run("run"), "--data", other.data, "--max-iters", "2"}),
                 1, "ids are those of another tokenizer");
  check_error_of("evaluate",
                 run_program("evaluate", {"--model", text.run("run"), "--data", other.data}), 1,
                 "ids are those of another tokenizer");
  // As its writer says, but with an id that its tokenizer has no token for.
  data::ShardWriter writer(text.data / "val_000000.bin", data::TokenFormat::nanogpt, 16);
  writer.write(std::vector<data::Token>(100, 999));
  data::DataInfo info = data::read_data_json(text.data);
  info.val.shards = {writer.finish()};
  data::write_data_json(text.data, info, text.tokenizer);
  check_error_of("train-gpt", text.train("new", 2), 1,
                 "val_000000.bin: the id 999 at place 0 is not one of the ");
}

TEST_CASE("what is for texts is refused beside --data", "[data-folders]") {
  const PreparedText text;
  const Args options[] = {{"--val-fraction", "0.1"}, {"--separator", "\\n"},
                          {"--encoding", "latin-1"}, {"--field", "story"},
                          {"--val", text.corpus},    {"--corpus", text.corpus}};
  for (const Args& option : options) {
    check_unparsed(run_on({"--data", text.data}, text.run("run"), 2) + option, 2, option[0]);
  }
  check_error_of("train-gpt", text.train("run", 2, {"--tokenizer", "bpe:300"}), 1,
                 "--tokenizer bpe:300");
  check_error_of("train-gpt", text.train("run", 2, {"--tokenizer", "gpt2"}), 1,
                 "another tokenizer");
  check_error_of("train-gpt", train({"--data", text.folder.path()}), 1, "data.json");
  CHECK(!std::filesystem::exists(text.run("run") / "config.json"));
}

TEST_CASE("evaluate, --plan and passes work on a prepared folder", "[data-folders]") {
  const PreparedText text;
  Args passes = run_on({"--data", text.data}, text.run("run"), 0);
  const auto max_iters = std::find(passes.begin(), passes.end(), "--max-iters");
  passes.erase(max_iters, max_iters + 2);
  check_ended_well(train(passes + Args{"--batches", "epochs", "--epochs", "1"}));
  const Result evaluated =
      run_program("evaluate", {"--model", text.run("run"), "--data", text.data});
  check_ended_well(evaluated);
  CHECK(evaluated.out.find("val_000000.bin: loss") == 0);
  check_ended_well(text.train("plan", 2, {"--plan"}));
  check_ended_well(text.train("one", 3, {"--overfit-batch"}));
  check_ended_well(train({"--eval-only", "--out-dir", text.run("run")}));
}

TEST_CASE("a folder of learnt tokens gives its tokenizer to the run", "[data-folders]") {
  const auto learnt = data::Tokenizer::train_bpe(tiny_text(), 280);
  const PreparedText text(data::TokenFormat::nanogpt, learnt);
  check_ended_well(text.train("run", 2));
  const auto config = nlohmann::json::parse(TempFolder::get(text.run("run") / "config.json"));
  CHECK(config["data"]["tokenizer"] == "bpe:280");
  CHECK(config["model"]["vocab_size"] == 280);
  check_ended_well(train(resume_run(text.run("run"), 3) + Args{"--no-sample"}));
}
