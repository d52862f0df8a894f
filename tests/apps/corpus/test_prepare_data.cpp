// tapegrad prepare from the outside: what it writes, stopped and started again, and what it
// refuses.

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <random>

#include "tapegrad/base/random.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/documents.h"
#include "tapegrad/data/data_folder.h"
#include "tapegrad/tests/apps/unprivileged.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

const std::string kMark = "<|endoftext|>";

Result prepare(const Args& args) { return run_program("prepare", args); }

void check_ok(const Result& r) {
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
}

void check_refused(const Args& args, const std::string& message, int code = 1) {
  const Result r = prepare(args);
  INFO(r.out << r.err);
  CHECK(r.code == code);
  CHECK_THAT(r.err, ContainsSubstring(message));
}

// All files of a folder.
std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = TempFolder::get(entry.path());
  }
  return files;
}

std::vector<Token> tokens_of(const std::vector<TokenFile>& files) {
  const TokenSource all(files);
  std::vector<Token> tokens(static_cast<std::size_t>(all.size()));
  all.copy(0, tokens);
  return tokens;
}

std::string text_of_words(std::size_t words, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    text += fmt::format("word{}{}", random() % 5000, random() % 30 == 0 ? ".\n" : " ");
  }
  return text;
}

using Views = std::vector<std::string_view>;

// A text, and one with marks and JSON lines, as documents.
struct TwoFiles {
  TempFolder folder;
  std::string one = text_of_words(20'000, 1), two = "a" + kMark + "b" + kMark + "\nc\n";
  TwoFiles() {
    folder.put("in/1.txt", one);
    folder.put("in/2.txt", two);
    folder.put("in/3.jsonl", "{\"text\": \"d e f\"}\n{\"text\": \"g\"}\n");
  }
  Args args(const std::string& out, const Args& more = {}) const {
    return Args{"--corpus", folder / "in", "--out-dir", folder / out} + more;
  }
};

}  // namespace

TEST_CASE("a prepared corpus has the tokens of its documents", "[prepare]") {
  const TwoFiles files;
  files.folder.put("val.txt", "to validate with\n");
  check_ok(prepare(files.args("out", {"--val", files.folder / "val.txt"})));
  const DataFolder data = open_data_folder(files.folder / "out");
  const Tokenizer gpt2 = Tokenizer::gpt2();
  const Corpus corpus = read_corpus(std::vector<std::filesystem::path>{files.folder / "in"});
  const auto documents = cut_documents(corpus.text, corpus.documents, {"", kMark});
  CHECK(tokens_of(data.train) == gpt2.encode_documents(documents, true));
  CHECK(tokens_of(data.val) == gpt2.encode("to validate with\n"));
  CHECK(data.info.train.documents == std::ssize(documents));
  CHECK(data.info.val.documents == 1);
  CHECK(data.info.train.shards[0].name == "train.bin");
  CHECK(data.tokenizer.kind() == "gpt2");
  CHECK(files_of(files.folder / "out").size() == 4);  // no state is left
}

TEST_CASE("whole documents are drawn, as train --corpus draws them, and each ends with its token",
          "[prepare]") {
  const TempFolder folder;
  const auto [count, fraction] =
      GENERATE(std::pair(400, 0.2), std::pair(40, 0.1), std::pair(3, 0.3));
  CAPTURE(count);
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += fmt::format("{{\"text\": \"hello world number {} of the corpus is here\"}}\n", i);
  }
  const std::string file = folder.put("in.jsonl", lines);
  check_ok(prepare({"--corpus", file, "--out-dir", folder / "out", "--val-fraction",
                    fmt::format("{}", fraction)}));
  const DataFolder data = open_data_folder(folder / "out");
  const Corpus corpus = read_corpus(std::vector<std::filesystem::path>{file});
  const Views documents = cut_documents(corpus.text, corpus.documents, {"", kMark});
  REQUIRE(std::ssize(documents) == count);
  Rng draws(1337 + 2, Rng::Kind::philox);
  DocumentSplit split = split_documents(corpus.text, documents, fraction, draws);
  REQUIRE(split.whole);
  CHECK(data.info.train.documents == std::ssize(split.train));
  CHECK(data.info.val.documents == std::ssize(split.val));
  // The part without the last document of the corpus has an end behind.
  const bool trains_last = split.train.back().data() == documents.back().data();
  (trains_last ? split.val : split.train).emplace_back();
  const Tokenizer gpt2 = Tokenizer::gpt2();
  CHECK(tokens_of(data.train) == gpt2.encode_documents(split.train, true));
  CHECK(tokens_of(data.val) == gpt2.encode_documents(split.val, true));
}

TEST_CASE("of a corpus of one document, the end is for validation", "[prepare]") {
  const TempFolder folder;
  const std::string text = text_of_words(3000, 2) + "é";
  const std::string file = folder.put("in.txt", text);
  for (const std::string tokenizer : {"char", "gpt2"}) {
    const std::string out = folder / tokenizer;
    check_ok(prepare({"--corpus", file, "--out-dir", out, "--tokenizer", tokenizer}));
    const DataFolder data = open_data_folder(out);
    const auto size = static_cast<std::size_t>(0.9 * static_cast<double>(text.size()));
    CHECK(data.tokenizer.decode(tokens_of(data.train)) == text.substr(0, size));
    CHECK(data.tokenizer.decode(tokens_of(data.val)) == text.substr(size));
  }
  CHECK(open_data_folder(folder / "char").tokenizer.vocab_size() ==
        Tokenizer::of_characters(text).vocab_size());
}

TEST_CASE("tokens are learnt from the documents for training", "[prepare]") {
  const TwoFiles files;
  const std::string val = files.folder.put("val.txt", "zq zq zq zq zq zq zq zq\n");
  check_ok(prepare(files.args("out", {"--val", val, "--tokenizer", "bpe:400"})));
  const DataFolder data = open_data_folder(files.folder / "out");
  CHECK(data.tokenizer.vocab_size() == 400);
  const Views words{files.one, "a", "b", "\nc\n", "d e f", "g"};
  CHECK(data.tokenizer.hf_json() == Tokenizer::train_bpe(words, 400).hf_json());
  CHECK(data.tokenizer.decode(tokens_of(data.val)) == "zq zq zq zq zq zq zq zq\n");
}

TEST_CASE("files depend neither on threads nor on the sizes of shards", "[prepare]") {
  const TwoFiles files;
  check_ok(prepare(files.args("one", {"--threads", "1", "--shard-tokens", "0"})));
  check_ok(prepare(files.args("four", {"--threads", "4", "--shard-tokens", "0"})));
  CHECK(files_of(files.folder / "one") == files_of(files.folder / "four"));
  check_ok(prepare(files.args("shards", {"--shard-tokens", "1000", "--format", "llm.c"})));
  const DataFolder whole = open_data_folder(files.folder / "one");
  const DataFolder shards = open_data_folder(files.folder / "shards");
  REQUIRE(shards.train.size() > 10);
  CHECK(shards.train[0].count == 1000);
  CHECK(shards.info.train.shards[1].name == "train_000001.bin");
  CHECK(tokens_of(shards.train) == tokens_of(whole.train));
  CHECK(tokens_of(shards.val) == tokens_of(whole.val));
}

TEST_CASE("stopped anywhere, the same command makes the same files", "[prepare]") {
  const TempFolder folder;
  std::string text;
  for (unsigned i = 0; i < 40; ++i) text += text_of_words(8000, i) + (i % 3 ? kMark : "\n\n");
  const std::string corpus = folder.put("in.txt", text);
  const Args args{"--corpus", corpus,           "--tokenizer", "bpe:600",  "--shard-tokens",
                  "20000",    "--val-fraction", "0.3",         "--out-dir"};
  const auto begin = std::chrono::steady_clock::now();
  check_ok(prepare(args + Args{folder / "whole"}));
  const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  const auto whole = files_of(folder / "whole");
  REQUIRE(whole.size() > 20);
  std::mt19937 random(1);
  int stopped = 0;
  for (int round = 0; round < 40; ++round) {
    Program program("prepare", args + Args{folder / "out"});
    // The first one is stopped in any case, the later ones anywhere.
    const auto most = static_cast<unsigned>(taken.count()) / (round == 0 ? 2 : 1);
    const bool ended = program.ends_within(std::chrono::milliseconds(random() % (most + 1)));
    if (!ended) program.send(round % 3 == 0 ? SIGINT : SIGKILL);
    const Result r = program.wait();
    INFO(r.out << r.err);
    // It may have been killed after its last file.
    const bool is_there = r.err.find("has a prepared corpus already") != std::string::npos;
    if (r.code == 0 || is_there) break;
    ++stopped;
    REQUIRE((r.code == -SIGKILL || r.code == -SIGINT || r.code == 130));
  }
  INFO("stopped " << stopped << " times");
  const Result last = prepare(args + Args{folder / "out"});
  INFO(last.out << last.err);
  CHECK((last.code == 0 || last.err.find("has a prepared corpus already") != std::string::npos));
  CHECK(files_of(folder / "out") == whole);
  CHECK(stopped > 0);
  // Stopped behind a shard, for sure.
  std::filesystem::remove_all(folder / "out");
  Program program("prepare", args + Args{folder / "out"});
  program.wait_for("train_000001.bin");
  program.send(SIGKILL);
  if (program.wait().code == -SIGKILL) {
    const Result r = prepare(args + Args{folder / "out"});
    CHECK_THAT(r.out, ContainsSubstring("goes on: "));
  }
  CHECK(files_of(folder / "out") == whole);
}

TEST_CASE("another corpus or other options do not go on", "[prepare]") {
  const TempFolder folder;
  const std::string corpus = folder.put("in.txt", text_of_words(200'000, 1));
  const Args args{"--corpus", corpus, "--shard-tokens", "10000", "--out-dir", folder / "out"};
  Program program("prepare", args);
  program.wait_for("train_000001.bin");
  program.send(SIGINT);
  const Result r = program.wait();
  REQUIRE(r.code == 130);
  CHECK_THAT(r.err, ContainsSubstring("stopped: ") && ContainsSubstring("goes on"));
  check_refused(args + Args{"--seed", "1"}, "was begun with other options: --corpus");
  const std::string text = TempFolder::get(corpus);
  folder.put("in.txt", "W" + text.substr(1));
  check_refused(args, "--corpus: the text has changed since");
  folder.put("in.txt", text);
  const std::string shard = TempFolder::get(folder / "out/train_000000.bin");
  folder.put("out/train_000000.bin", shard.substr(1));
  check_refused(args, "train_000000.bin has changed since it was made");
  folder.put("out/train_000000.bin", shard);
  const std::string state = TempFolder::get(folder / "out/prepare-state.json");
  for (const std::string bad :
       {"", "{}", "[", "{\"format\": \"tapegrad-prepare\", \"version\": 2}"}) {
    folder.put("out/prepare-state.json", bad);
    check_refused(args, "prepare-state.json");
  }
  std::string elsewhere = state;
  elsewhere.replace(elsewhere.find("train_000000.bin"), 16, "../../../in.txt1");
  folder.put("out/prepare-state.json", elsewhere);
  check_refused(args, "is not the name of shard 0");
  folder.put("out/prepare-state.json", state);
  check_ok(prepare(args));
  check_refused(args, "has a prepared corpus already: --overwrite");
  check_ok(prepare(args + Args{"--overwrite", "--shard-tokens", "0"}));
  CHECK(files_of(folder / "out").size() == 4);  // no shard of the first time is left
}

TEST_CASE("--overwrite removes nothing before all that it needs was read", "[prepare]") {
  const TwoFiles files;
  check_ok(prepare(files.args("out")));
  const auto whole = files_of(files.folder / "out");
  const Args again{"--out-dir", files.folder / "out", "--overwrite"};
  check_refused(again + Args{"--corpus", files.folder / "typo"}, "typo");
  CHECK(files_of(files.folder / "out") == whole);
  check_refused(files.args("out", {"--overwrite", "--tokenizer", files.folder / "typo.json"}),
                "typo.json");
  CHECK(files_of(files.folder / "out") == whole);
  check_ok(prepare(files.args("out", {"--overwrite"})));
  CHECK(files_of(files.folder / "out") == whole);
}

TEST_CASE("--overwrite goes on, too, if it was stopped", "[prepare]") {
  const TempFolder folder;
  const std::string corpus = folder.put("in.txt", text_of_words(200'000, 1));
  const Args args{"--corpus",  corpus,         "--shard-tokens", "10000",
                  "--out-dir", folder / "out", "--overwrite"};
  Program program("prepare", args);
  program.wait_for("train_000001.bin");
  program.send(SIGINT);
  REQUIRE(program.wait().code == 130);
  const Result r = prepare(args);
  check_ok(r);
  CHECK_THAT(r.out, ContainsSubstring("goes on: "));
}

TEST_CASE("nothing of an earlier tokenizer is left", "[prepare]") {
  const TwoFiles files;
  const std::string model = std::string(places::kSources) + "/tests/golden/hf_llama";
  check_ok(prepare(files.args("out", {"--tokenizer", model})));
  REQUIRE(files_of(files.folder / "out").count("generation_config.json") == 1);
  check_ok(prepare(files.args("out", {"--tokenizer", "char", "--overwrite"})));
  CHECK(files_of(files.folder / "out").count("generation_config.json") == 0);
}

TEST_CASE("a folder with other things is left alone", "[prepare]") {
  const TwoFiles files;
  files.folder.put("out/train.bin", "somebody else's");
  check_refused(files.args("out"), "has files already, which tapegrad prepare did not make");
  check_refused(files.args("out", {"--overwrite"}), "has files already");
  CHECK(TempFolder::get(files.folder / "out/train.bin") == "somebody else's");
  check_refused(files.args("in/tokens"), "is inside of the corpus");
  check_refused(files.args("in"), "is inside of the corpus");
  CHECK(!std::filesystem::exists(files.folder / "in/tokens"));
}

TEST_CASE("stdin is read like a file", "[prepare]") {
  const TwoFiles files;
  Program program("prepare", {"--corpus", "-", "--out-dir", files.folder / "stdin"}, ".",
                  files.folder / "in/1.txt");
  check_ok(program.wait());
  check_ok(prepare({"--corpus", files.folder / "in/1.txt", "--out-dir", files.folder / "file"}));
  CHECK(files_of(files.folder / "stdin") == files_of(files.folder / "file"));
  // A failure to read is not the end of the text.
  Program broken("prepare", {"--corpus", "-", "--out-dir", files.folder / "none"}, ".",
                 files.folder / "in");
  const Result r = broken.wait();
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring("stdin cannot be read"));
}

TEST_CASE("what is no corpus is refused by name", "[prepare]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& path, const std::string& message) {
    check_refused({"--corpus", path, "--out-dir", folder / "out"}, message);
  };
  gzFile packed = ::gzopen((folder / "cut.gz").c_str(), "wb");
  const std::string text = text_of_words(50'000, 3);
  REQUIRE(::gzwrite(packed, text.data(), static_cast<unsigned>(text.size())) > 0);
  ::gzclose(packed);
  const std::string bytes = TempFolder::get(folder / "cut.gz");
  folder.put("cut.gz", bytes.substr(0, bytes.size() / 2));
  refused(folder / "cut.gz", "cut.gz' cannot be unpacked: it is cut short");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  refused(folder / "pipe", "it is a pipe");
  std::filesystem::create_directory(folder / "empty");
  refused(folder / "empty", "has no file of UTF-8 text");
  refused(folder / "none", "none': No such file");
  folder.put("begun/prepare-state.json", "{}");
  refused(folder / "begun", "begun: it is tokens already, not text");
  refused(folder.put("blank", " \n\t\n"), "nothing but white space");
  refused(folder.put("late", text + std::string(1, '\0')), "is binary, not text");
  refused(folder.put("word", std::string(5 << 20, 'a')), "there is no place to cut it");
  check_refused({"--out-dir", folder / "out"}, "--corpus is needed", 2);
  check_refused({"--corpus", "x"}, "--out-dir is needed", 2);
  check_refused({"--corpus", "x", "--out-dir", "y", "--tokenizer", "words"}, "--tokenizer", 2);
}

TEST_CASE("what may not be read or written is refused", "[prepare]") {
  const TempFolder folder;
  const std::string secret = folder.put("secret.txt", text_of_words(1000, 4));
  const std::string open = folder.put("open.txt", text_of_words(1000, 4));
  std::filesystem::create_directory(folder / "closed");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  std::filesystem::permissions(
      folder / "closed", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const auto refused = [&](const Args& args, const std::string& message) {
    const Result r = run_unprivileged("prepare", args, folder.path());
    INFO(r.out << r.err);
    CHECK(r.code == 1);
    CHECK_THAT(r.err, ContainsSubstring(message));
  };
  refused({"--corpus", secret, "--out-dir", folder / "out"}, "secret.txt': Permission denied");
  refused({"--corpus", open, "--out-dir", folder / "closed"}, "closed");
  refused({"--corpus", open, "--out-dir", folder / "closed/in"}, "closed/in");
}
