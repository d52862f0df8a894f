// tapegrad tokenizer train, show and compare.

#include "tapegrad/base/text/internal/base64.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

namespace fs = std::filesystem;

namespace {

std::string some_lines() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "line " + std::to_string(i * i % 97) + " of the tale of a tokenizer\n";
  }
  return text;
}

Result tokenizer(const TempFolder& folder, const Args& args) {
  return run_program("tapegrad", Args{"tokenizer"} + args, folder.path());
}

void check_refused(const TempFolder& folder, const Args& args, int code, const std::string& what) {
  const Result r = tokenizer(folder, args);
  CHECK(r.code == code);
  CHECK(r.out.empty());
  CHECK_THAT(r.err, ContainsSubstring(what));
}

}  // namespace

TEST_CASE("tokenizer train writes what show, compare and prepare open", "[tokenizer][programs]") {
  const TempFolder folder;
  folder.put("a.txt", some_lines());
  for (const std::string kind : {"bpe", "byte_fallback", "unigram"}) {
    const Args train = {"train", "a.txt", "--kind", kind, "--vocab-size", "300", "--out", kind};
    const Result r = tokenizer(folder, train);
    CHECK(r.code == 0);
    CHECK_THAT(r.out,
               ContainsSubstring("300 tokens") && ContainsSubstring("--tokenizer " + kind + "\n"));
    check_refused(folder, train, 1, kind + ": there is a tokenizer.json already; --overwrite");
    const std::string file = TempFolder::get(folder / (kind + "/tokenizer.json"));
    CHECK(tokenizer(folder, train + Args{"--overwrite", "--threads", "1"}).code == 0);
    CHECK(TempFolder::get(folder / (kind + "/tokenizer.json")) == file);
    CHECK(run_program("tapegrad",
                      {"prepare", "a.txt", "--tokenizer", kind, "--out-dir", kind + "-tokens"},
                      folder.path())
              .code == 0);
    const Result shown = tokenizer(folder, {"show", kind, "a line\n\x01"});
    CHECK(shown.code == 0);
    CHECK_THAT(shown.out, ContainsSubstring("300 tokens") && ContainsSubstring("'\\n'") &&
                              ContainsSubstring("<U+0001>") &&
                              ContainsSubstring("comes back byte for byte"));
    CHECK(tokenizer(folder, {"show", kind + "-tokens"}).code == 0);
  }
  folder.put("bpe/special_tokens_map.json", "{}");
  check_refused(folder, {"train", "a.txt", "--vocab-size", "300", "--out", "bpe", "--overwrite"}, 1,
                "bpe: there is a special_tokens_map.json of another tokenizer");
  fs::remove(folder / "bpe/special_tokens_map.json");
  const Result r = tokenizer(folder, {"compare", "gpt2", "bpe", "unigram", "--file", "a.txt"});
  CHECK(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("bytes/token") && ContainsSubstring("\ngpt2 ") &&
                        ContainsSubstring("\nunigram "));
}

TEST_CASE("a tokenizer.model is shown, prepares a corpus and belongs to a model's folder",
          "[tokenizer][programs]") {
  const TempFolder folder;
  const auto golden = tapegrad::testing::golden_json("tokenizer_models.json").at("bpe llama");
  const std::string file = tapegrad::bytes_of_base64(golden.at("file").get<std::string>(), "file");
  folder.put("spm.model", file);
  folder.put("a.txt", some_lines());
  const Result shown = tokenizer(folder, {"show", "spm.model", "the cat"});
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, ContainsSubstring("BPE with byte fallback") && ContainsSubstring("'</s>'"));
  CHECK(run_program("tapegrad",
                    {"prepare", "a.txt", "--tokenizer", "spm.model", "--out-dir", "tokens"},
                    folder.path())
            .code == 0);
  const auto ids = tapegrad::data::Tokenizer::from_hf(folder / "spm.model").encode("the cat");
  CHECK(tapegrad::data::Tokenizer::load(folder / "tokens/tokenizer.json").encode("the cat") == ids);

  fs::copy(tapegrad::testing::golden_file("hf_llama"), folder / "model",
           fs::copy_options::recursive);
  fs::remove(folder / "model/tokenizer.json");
  folder.put("model/tokenizer.model", file);
  CHECK(tokenizer(folder, {"compare", "model", "spm.model", "--text", "the cat"}).code == 0);
  CHECK(run_program("tapegrad", {"sample", "model", "--prompt", "a", "--max-new-tokens", "2"},
                    folder.path())
            .code == 0);
  CHECK(
      run_program("tapegrad", {"export", "model", "--format", "hf", "--out", "out"}, folder.path())
          .code == 0);
  CHECK(tapegrad::data::Tokenizer::from_hf(folder / "out").encode("the cat") == ids);

  folder.put("cut.model", file.substr(0, 1000));
  check_refused(folder, {"show", "cut.model"}, 1, "'cut.model' is not a usable tokenizer");
}

TEST_CASE("a page of tokens is safe against its text", "[tokenizer][programs]") {
  const TempFolder folder;
  folder.put("evil.txt", "<script>alert(1)</script> \"'&\xFF\xE2\x80\xAE \x1b[31m\n");
  const Result r =
      tokenizer(folder, {"compare", "gpt2", "--file", "evil.txt", "--report", "a.html"});
  CHECK(r.code == 0);
  const std::string page = TempFolder::get(folder / "a.html");
  CHECK_THAT(page, !ContainsSubstring("<script") && !ContainsSubstring("\x1b") &&
                       !ContainsSubstring("\xE2\x80\xAE") && !ContainsSubstring("\xFF") &&
                       ContainsSubstring("default-src 'none'") && ContainsSubstring("&lt;") &&
                       ContainsSubstring("<i>FF</i>"));
}

TEST_CASE("a character that a tokenizer lacks is named in its row", "[tokenizer][programs]") {
  const TempFolder folder;
  tapegrad::data::Tokenizer::of_characters("abc \n").save(folder / "tokenizer.json");
  const Result r = tokenizer(folder, {"compare", "tokenizer.json", "gpt2", "--text", "abcd"});
  CHECK(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("characters") && ContainsSubstring("'d'"));
  CHECK(tokenizer(folder, {"show", ".", "abcd"}).code == 1);
  CHECK_THAT(tokenizer(folder, {"show", ".", "abc"}).out, ContainsSubstring("3 tokens"));
}

TEST_CASE("tokenizer refuses what it cannot use", "[tokenizer][programs]") {
  const TempFolder folder;
  folder.put("a.txt", some_lines());
  folder.put("bad/tokenizer.json", "{\"model\": 3}");
  folder.put("model/config.json", "{}");
  folder.put("blank.txt", " \n ");
  folder.put("prepared/data.json", "{}");
  check_refused(folder, {"train", "a.txt", "--out", "prepared", "--overwrite"}, 1,
                "the tokenizer of a corpus is not replaced");
  check_refused(folder, {"compare", "gpt2", "--text", "a", "--report", "a.txt"}, 1,
                "--report a.txt: the file that is there is no page, and stays");
  CHECK(TempFolder::get(folder / "a.txt") == some_lines());
  check_refused(folder, {}, 2, "say what to do: train, show, compare");
  check_refused(folder, {"shwo"}, 2, "did you mean show?");
  check_refused(folder, {"show"}, 2, "which tokenizer?");
  check_refused(folder, {"show", "nothing"}, 1, "'nothing' is no tokenizer");
  check_refused(folder, {"show", "bad"}, 1, "is not a usable tokenizer");
  check_refused(folder, {"show", "gpt2", "a", "--file", "a.txt"}, 2, "exclude each other");
  check_refused(folder, {"compare", "--file", "a.txt"}, 2, "which tokenizers?");
  check_refused(folder, {"compare", "gpt2"}, 2, "give --file or --text");
  check_refused(folder, {"compare", "gpt2", "--file", "none.txt"}, 1, "none.txt");
  check_refused(folder, {"train", "--out", "x"}, 2, "which corpus?");
  check_refused(folder, {"train", "a.txt"}, 2, "--out is needed");
  check_refused(folder, {"train", "a.txt", "--kind", "wordpiece", "--out", "x"}, 2, "--kind");
  check_refused(folder, {"train", "a.txt", "--encoding", "klingon", "--out", "x"}, 2, "klingon");
  check_refused(folder, {"train", "a.txt", "--out", "a.txt"}, 1, "is a file");
  check_refused(folder, {"train", "a.txt", "--out", "model"}, 1,
                "the tokenizer of a model is not replaced");
  check_refused(folder, {"train", "none.txt", "--out", "x"}, 1, "none.txt");
  check_refused(folder, {"train", "blank.txt", "--out", "x"}, 1, "nothing but white space");
  CHECK(tokenizer(folder, {"train", "a.txt", "--vocab-size", "90000", "--out", "x"}).code == 1);
  CHECK_FALSE(fs::exists(folder / "x"));
  CHECK(tokenizer(folder, {"--help"}).code == 0);
  CHECK(tokenizer(folder, {"train", "--help"}).code == 0);
}
