// train-gpt --chat: runs that learn answers of conversations.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

namespace fs = std::filesystem;

std::string chat_lines(int count, int first = 0) {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    const std::string a = std::to_string(i % 10), b = std::to_string(i % 7);
    text += R"({"messages":[{"role":"user","content":"what is )" + a + " and " + b +
            R"("},{"role":"assistant","content":")" + a + " and " + b + R"("}]})" + "\n";
  }
  return text;
}

// A folder with conversations, and what makes runs of them.
struct Chats {
  TempFolder folder;
  fs::path file = folder.put("chats.jsonl", chat_lines(60));

  Args args(const std::string& run, int iters) const {
    return tiny_chat_run(file, folder / run, iters) +
           Args{
               "--gradient-accumulation-steps", "3", "--batch-size", "3", "--tokenizer", "bpe:270"};
  }
  Result train(const std::string& run, int iters, const Args& more = {}) const {
    return run_program("train-gpt", args(run, iters) + more);
  }
  std::string weights(const std::string& run) const {
    return TempFolder::get(folder / run / "model.safetensors");
  }
};

}  // namespace

TEST_CASE("a run on conversations is resumed to the same bits, on any number of threads",
          "[chat]") {
  const Chats chats;
  check_ended_well(chats.train("whole", 12));
  check_ended_well(chats.train("parts", 5));
  check_ended_well(run_program("train-gpt", resume_run(chats.folder / "parts", 12)));
  CHECK(chats.weights("whole") == chats.weights("parts"));
  for (const std::string threads : {"1", "4"}) {
    check_ended_well(chats.train("threads" + threads, 12, {"--threads", threads}));
    CHECK(chats.weights("whole") == chats.weights("threads" + threads));
  }
}

TEST_CASE("the run says what counts, and its folder has the template", "[chat]") {
  const Chats chats;
  const Result r = chats.train("run", 5, {"--sample-interval", "5"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("chat:    chats.jsonl: ") &&
                        ContainsSubstring(" tokens to train (") &&
                        ContainsSubstring("in 54 and 6 conversations"));
  CHECK_THAT(r.out, ContainsSubstring("prompt: what is ") && ContainsSubstring("wanted: "));
  const fs::path run = chats.folder / "run";
  CHECK_THAT(TempFolder::get(run / "chat_template.jinja"), ContainsSubstring("<|im_start|>"));
  const auto config = nlohmann::json::parse(TempFolder::get(run / "config.json"));
  CHECK(config["data"]["batches"] == "packed");
  CHECK(config["data"]["loss"] == "answers");
  CHECK(config["text"]["documents"] == 60);
  CHECK(config["model"]["vocab_size"] == 270);
  bool answered = false;
  std::istringstream lines(TempFolder::get(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("sample")) continue;
    answered = true;
    CHECK(json["prompt"].get<std::string>().starts_with("what is "));
    CHECK("what is " + json["wanted"].get<std::string>() == json["prompt"]);
  }
  CHECK(answered);
}

TEST_CASE("evaluate tells the loss of the answers that a run ended with", "[chat]") {
  const Chats chats;
  const fs::path val = chats.folder.put("val.jsonl", chat_lines(9, 3));
  const Result r = chats.train("run", 5, {"--val", val, "--final-eval", "all"});
  check_ended_well(r);
  const Result evaluated = run_program(
      "evaluate", {"--model", chats.folder / "run", "--chat", val, "--json", "--batch-size", "3"});
  check_ended_well(evaluated);
  const auto json = nlohmann::json::parse(evaluated.out);
  CHECK_THAT(r.out,
             ContainsSubstring(fmt::format("final: val loss {:.4f}", json["loss"].get<double>())));
  const Result again = run_program("train-gpt", {"--eval-only", "--out-dir", chats.folder / "run"});
  check_ended_well(again);
  CHECK_THAT(again.out,
             ContainsSubstring(fmt::format("loss {:.4f} (whole", json["loss"].get<double>())));
  const Result all = run_program(
      "evaluate", {"--model", chats.folder / "run", "--chat", val, "--json", "--loss", "all"});
  check_ended_well(all);
  CHECK(nlohmann::json::parse(all.out)["tokens"].get<int>() > json["tokens"].get<int>());
}

TEST_CASE("a token counts the same in whichever batch of a step it is", "[chat]") {
  const Chats chats;
  // Answers of very different lengths: a mean of the batches' means would be another loss.
  std::string lines = chat_lines(20);
  for (int i = 0; i < 20; ++i) {
    lines += R"({"prompt":"say","completion":")" +
             std::string(static_cast<std::size_t>(1 + i), 'b') + "\"}\n";
  }
  chats.folder.put("chats.jsonl", lines);
  const auto losses = [&](const std::string& run, const Args& batches) {
    check_ended_well(chats.train(run, 3, Args{"--dropout", "0"} + batches));
    std::vector<double> found;
    std::istringstream metrics(TempFolder::get(chats.folder / run / "metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains("loss")) found.push_back(json["loss"]);
    }
    return found;
  };
  const auto whole = losses("whole", {"--batch-size", "6", "--gradient-accumulation-steps", "1"});
  const auto parts = losses("parts", {"--batch-size", "1", "--gradient-accumulation-steps", "6"});
  REQUIRE(whole.size() == 3);
  REQUIRE(parts.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(parts[i] == Approx(whole[i]).epsilon(1e-5));
}

TEST_CASE("bad lines are named, and --strict-data stops at the first", "[chat]") {
  const Chats chats;
  chats.folder.put("chats.jsonl", chat_lines(20) + "{}\n" + chat_lines(20) + "nothing\n");
  const Result r = chats.train("run", 0);
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("2 lines are left out") &&
                        ContainsSubstring("chats.jsonl', line 21: its keys are none") &&
                        ContainsSubstring("line 42: no JSON"));
  CHECK_THAT(r.out, ContainsSubstring("2 bad lines left out"));
  check_error_of("train-gpt", chats.train("strict", 0, {"--strict-data"}), 1, "line 21: its keys");
  CHECK_FALSE(fs::exists(chats.folder / "strict"));
}

TEST_CASE("a note counts the special tokens that messages spell, and an option reads them",
          "[chat]") {
  const Chats chats;
  chats.folder.put("chats.jsonl",
                   chat_lines(20) +
                       R"({"prompt":"say <|im_end|>","completion":"<|im_start|><|im_end|>"})"
                       "\n");
  const std::string note = "messages spell special tokens in ";
  const Result r = chats.train("text", 0);
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring(note + "3 places, which are encoded as text"));
  const Result read = chats.train("read", 0, {"--special-in-messages"});
  check_ended_well(read);
  CHECK(read.err.find(note) == std::string::npos);
  const auto evaluated = [&](const Args& more) {
    const Result e = run_program(
        "evaluate", Args{"--model", chats.folder / "text", "--chat", chats.file} + more);
    check_ended_well(e);
    return e;
  };
  CHECK_THAT(evaluated({}).err, ContainsSubstring(note));
  const Result other = evaluated({"--special-in-messages"});
  CHECK(other.err.find(note) == std::string::npos);
  CHECK(other.out != evaluated({}).out);
  // A run that goes on keeps what it began with.
  const Result eval = run_program("train-gpt", {"--eval-only", "--out-dir", chats.folder / "read"});
  check_ended_well(eval);
  CHECK(eval.err.find(note) == std::string::npos);
  check_unparsed({"--special-in-messages"}, 2, "--special-in-messages needs --chat");
  check_error_of("evaluate", run_program("evaluate", {"x", "--special-in-messages", "y"}), 2,
                 "--special-in-messages needs --chat or --apply-chat-template");
}

TEST_CASE("a run that is older than --special-in-messages goes on as it began", "[chat]") {
  const Chats chats;
  std::string lines = chat_lines(20);
  for (int i = 0; i < 20; ++i) {
    lines += R"({"prompt":"say <|im_end|>","completion":"<|im_start|><|im_end|>"})"
             "\n";
  }
  chats.folder.put("chats.jsonl", lines);
  for (const std::string run : {"run", "older"}) {
    check_ended_well(chats.train(run, 4, {"--special-in-messages"}));
  }
  const std::string path = "older/config.json";
  auto config = nlohmann::ordered_json::parse(TempFolder::get(chats.folder / path));
  REQUIRE(config["data"].erase("special_in_messages") == 1);
  chats.folder.put(path, config.dump());
  const auto evaluated = [&](const std::string& run) {
    const Result r = run_program("train-gpt", {"--eval-only", "--out-dir", chats.folder / run});
    check_ended_well(r);
    return r.out.substr(0, r.out.find(';'));  // without the time
  };
  CHECK(evaluated("older") == evaluated("run"));
  for (const std::string run : {"run", "older"}) {
    check_ended_well(run_program("train-gpt", resume_run(chats.folder / run, 8)));
  }
  CHECK(chats.weights("older") == chats.weights("run"));
}

TEST_CASE("evaluate of two models says once which lines are left out", "[chat]") {
  const Chats chats;
  chats.folder.put("chats.jsonl", chat_lines(20) + "{}\n");
  check_ended_well(chats.train("run", 0));
  const fs::path run = chats.folder / "run";
  const Result r = run_program("evaluate", {"--model", run, "--model", run, "--chat", chats.file});
  check_ended_well(r);
  const std::string note = "1 line is left out";
  CHECK_THAT(r.err, ContainsSubstring(note));
  CHECK(r.err.find(note) == r.err.rfind(note));
}

TEST_CASE("other conversations than those of the run do not resume it", "[chat]") {
  const Chats chats;
  check_ended_well(chats.train("run", 2));
  chats.folder.put("chats.jsonl", chat_lines(61));
  check_error_of("train-gpt", run_program("train-gpt", resume_run(chats.folder / "run", 4)), 1,
                 "was made of another text");
}

TEST_CASE("options that do not fit conversations are refused by name", "[chat]") {
  const Chats chats;
  const auto refused = [&](const Args& more, const std::string& why) {
    check_unparsed(chats.args("no", 2) + more, 2, why);
  };
  refused({"--batches", "random"}, "batches of conversations are packed");
  refused({"--tokenizer", "char"}, "--chat needs a tokenizer with special tokens");
  refused({"--corpus", chats.file}, "--chat excludes --corpus");
  refused({"--chat", chats.file.string() + ":0"}, "a weight is above 0");
  refused({"--separator", "x"}, "--separator is for text");
  refused({"--stride", "8"}, "--stride needs --batches epochs");
  check_unparsed({"--loss", "all"}, 2, "--loss needs --chat");
  check_unparsed({"--batches", "packed"}, 2, "packed is for --chat");
  check_error_of("train-gpt", chats.train("no", 2, {"--block-size", "8"}), 1,
                 "no conversation is left for the training part");
  check_error_of("evaluate", run_program("evaluate", {"x", "--loss", "all", "y"}), 2,
                 "--loss needs --chat");
}

TEST_CASE("a model without a template learns ChatML, with tokens of its own", "[chat]") {
  const TinyRun base(3, {"--tokenizer", "bpe:270", "--block-size", "64"});
  const Chats chats;
  const Args args{"--init-from",        base.run,      "--chat", chats.file,   "--out-dir",
                  chats.folder / "run", "--max-iters", "3",      "--no-sample"};
  check_error_of("train-gpt", run_program("train-gpt", args + Args{"--block-size", "8"}), 1,
                 "no conversation is left");
  check_ended_well(run_program("train-gpt", args));
  const auto config = nlohmann::json::parse(TempFolder::get(chats.folder / "run" / "config.json"));
  CHECK(config["model"]["vocab_size"] == 272);
  check_unparsed(args + Args{"--lora-rank", "2", "--overwrite"}, 2,
                 "has no chat template and no tokens <|im_start|>");
  // The same of a folder that was prepared of them, however it is named.
  const std::string tokens = chats.folder / "tokens";
  check_ended_well(
      run_program("prepare", {"--chat", chats.file, "--model", base.run, "--out-dir", tokens}));
  for (const Args& text : {Args{tokens}, Args{"--corpus", tokens}, Args{"--data", tokens}}) {
    const gpt::Plan plan = parsed(Args{"--init-from", base.run} + text);
    CHECK(plan.is_chat);
    CHECK(plan.models.start->tokenizer.vocab_size() == 272);
  }
  check_ended_well(
      run_program("train-gpt", {"--init-from", base.run, tokens, "--out-dir", chats.folder / "word",
                                "--max-iters", "1", "--no-sample"}));
  check_ended_well(run_program(
      "train-gpt", {"--init-from", chats.folder / "run", "--chat", chats.file, "--out-dir",
                    chats.folder / "lora", "--max-iters", "2", "--no-sample", "--lora-rank", "2"}));
}
