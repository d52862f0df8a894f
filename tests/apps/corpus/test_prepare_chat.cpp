// tapegrad prepare --chat from the outside: folders of conversations, and runs that learn from
// them.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

namespace fs = std::filesystem;

std::string chat_lines(int count, int first = 0) {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    const std::string a = std::to_string(i % 10), b = std::to_string(i % 7);
    text += R"({"messages":[)";
    for (int turn = 0; turn <= i % 3; ++turn) {
      text += std::string(turn > 0 ? "," : "") + R"({"role":"user","content":"what is )" + a +
              " and " + b + R"("},{"role":"assistant","content":")" + a + " and " + b + R"("})";
    }
    text += "]}\n";
  }
  return text;
}

struct Chats {
  TempFolder folder;
  std::string one = folder.put("one.jsonl", chat_lines(40) + "{}\n").string();
  std::string two = folder.put("two.jsonl", chat_lines(20, 3)).string();

  Args files() const { return {"--chat", one, two + ":1.5"}; }
  Result prepare(const std::string& name, const Args& what) const {
    return run_program("prepare", what + Args{"--out-dir", folder / name});
  }
  Result train(const std::string& name, const Args& text, int iters = 10) const {
    return run_program(
        "train-gpt",
        text + Args{"--out-dir",        folder / name, "--max-iters",    std::to_string(iters),
                    "--preset",         "char-cpu",    "--n-layer",      "1",
                    "--n-head",         "2",           "--n-embd",       "16",
                    "--batch-size",     "3",           "--eval-iters",   "2",
                    "--eval-interval",  "5",           "--warmup-iters", "2",
                    "--lr-decay-iters", "20",          "--dropout",      "0.1",
                    "--no-sample"});
  }
  std::string weights(const std::string& run) const {
    return TempFolder::get(folder / run / "model.safetensors");
  }
  std::string metrics(const std::string& run) const {
    return TempFolder::get(folder / run / "metrics.jsonl");
  }
};

// The arguments without an option and its value.
Args without(Args args, const std::string& option) {
  const auto it = std::find(args.begin(), args.end(), option);
  args.erase(it, it + 2);
  return args;
}

// The samples of a run, and the losses, without times.
std::vector<std::string> told(const std::string& metrics) {
  std::vector<std::string> lines;
  std::istringstream stream(metrics);
  for (std::string line; std::getline(stream, line);) {
    const auto json = nlohmann::json::parse(line);
    for (const char* key : {"prompt", "wanted", "sample", "train_loss", "val_loss"}) {
      if (json.contains(key)) lines.push_back(json[key].dump());
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("a run learns from a prepared folder of conversations as from their files",
          "[prepare_chat]") {
  const Chats chats;
  const Result made = chats.prepare(
      "data", chats.files() + Args{"--tokenizer", "bpe:270", "--shard-tokens", "500"});
  check_ended_well(made);
  CHECK_THAT(made.err, ContainsSubstring("1 line is left out") &&
                           ContainsSubstring("one.jsonl', line 41: its keys are none"));
  CHECK_THAT(made.out, ContainsSubstring("conversations: 60 of 2 files") &&
                           ContainsSubstring("train: ") &&
                           ContainsSubstring(" tokens of 54 conversations") &&
                           ContainsSubstring("--data " + (chats.folder / "data").string()));
  CHECK(fs::exists(chats.folder / "data/train_000001.bin"));
  CHECK(fs::exists(chats.folder / "data/chat_template.jinja"));
  CHECK_FALSE(fs::exists(chats.folder / "data/prepare-state.json"));
  // A block that cuts the longest ones.
  for (const std::string loss : {"answers", "last", "all"}) {
    const Args how{"--loss", loss, "--block-size", "64", "--sample-interval", "5"};
    check_ended_well(chats.train("files", chats.files() + Args{"--tokenizer", "bpe:270"} + how));
    const Result r = chats.train("folder", Args{"--data", chats.folder / "data"} + how);
    check_ended_well(r);
    CHECK_THAT(r.out, ContainsSubstring("1 bad line left out") &&
                          ContainsSubstring("conversations cut at a turn"));
    CHECK(chats.weights("files") == chats.weights("folder"));
    CHECK(told(chats.metrics("files")) == told(chats.metrics("folder")));
    CHECK(TempFolder::get(chats.folder / "files/chat_template.jinja") ==
          TempFolder::get(chats.folder / "folder/chat_template.jinja"));
    for (const char* run : {"files", "folder"}) fs::remove_all(chats.folder / run);
  }
}

TEST_CASE("a run on a folder of conversations is resumed to the same bits, and not on another one",
          "[prepare_chat]") {
  const Chats chats;
  const Args data{"--data", chats.folder / "data", "--block-size", "128"};
  const Args what = chats.files() + Args{"--tokenizer", "bpe:270"};
  check_ended_well(chats.prepare("data", what));
  check_ended_well(chats.train("whole", data));
  check_ended_well(chats.train("parts", data, 5));
  check_ended_well(run_program("train-gpt", resume_run(chats.folder / "parts", 10)));
  CHECK(chats.weights("whole") == chats.weights("parts"));
  const Result evaluated =
      run_program("train-gpt", {"--eval-only", "--out-dir", chats.folder / "whole"});
  check_ended_well(evaluated);
  const Result loss =
      run_program("evaluate", {"--model", chats.folder / "whole", "--data", chats.folder / "data"});
  check_ended_well(loss);
  CHECK(evaluated.out.substr(evaluated.out.find("loss"), 11) ==
        loss.out.substr(loss.out.find("loss"), 11));

  fs::rename(chats.folder / "data", chats.folder / "moved");
  const Args resumed = resume_run(chats.folder / "parts", 11);
  check_error_of("train-gpt", run_program("train-gpt", resumed), 1,
                 (chats.folder / "data").string());
  check_ended_well(run_program("train-gpt", resumed + Args{"--data", chats.folder / "moved"}));

  check_ended_well(chats.prepare("moved", what + Args{"--seed", "5", "--overwrite"}));
  const Result other = run_program("train-gpt", resume_run(chats.folder / "parts", 12));
  CHECK(other.code == 1);
  CHECK_THAT(other.err, ContainsSubstring("was made of another text"));
}

TEST_CASE("conversations are prepared with the template and the tokenizer of a model",
          "[prepare_chat]") {
  const Chats chats;
  check_ended_well(chats.train(
      "base", {"--chat", chats.one, "--tokenizer", "bpe:270", "--block-size", "128"}, 5));
  const std::string base = (chats.folder / "base").string();
  const std::string own =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}";
  chats.folder.put("base/chat_template.jinja", own);
  const Result made = chats.prepare("data", {"--chat", chats.two, "--model", base});
  check_ended_well(made);
  CHECK_THAT(made.out, ContainsSubstring("--init-from " + base));
  CHECK(TempFolder::get(chats.folder / "data/chat_template.jinja") == own);
  const Args from{"--init-from", base, "--block-size", "64"};
  check_ended_well(chats.train("files", from + Args{"--chat", chats.two}, 5));
  check_ended_well(chats.train("folder", from + Args{"--data", chats.folder / "data"}, 5));
  CHECK(chats.weights("files") == chats.weights("folder"));

  chats.folder.put("base/chat_template.jinja", own + " ");
  const Result other = chats.train("other", from + Args{"--data", chats.folder / "data"}, 5);
  CHECK(other.code == 1);
  CHECK_THAT(other.err, ContainsSubstring("made by another chat template"));
  chats.folder.put("data/chat_template.jinja", own + "x");
  const Result broken = chats.train("broken", {"--data", chats.folder / "data"}, 5);
  CHECK(broken.code == 1);
  CHECK_THAT(broken.err, ContainsSubstring("is not the one that made its tokens"));
}

TEST_CASE("what cannot be prepared, or learnt from a folder of conversations, is refused",
          "[prepare_chat]") {
  const Chats chats;
  const auto refused = [&](const Result& r, const std::string& message, int code) {
    INFO(r.out << r.err);
    CHECK(r.code == code);
    CHECK_THAT(r.err, ContainsSubstring(message));
  };
  refused(chats.prepare("data", chats.files() + Args{"--corpus", chats.one}),
          "--chat excludes --corpus", 2);
  refused(chats.prepare("data", chats.files() + Args{"--tokenizer", "char"}),
          "needs a tokenizer with special tokens", 2);
  refused(chats.prepare("data", chats.files() + Args{"--separator", "x"}), "are for text", 2);
  for (const char* option : {"--strict-data", "--special-in-messages"}) {
    refused(chats.prepare("data", {"--corpus", chats.one, option}), "need --chat", 2);
  }
  refused(chats.prepare("data", chats.files() + Args{"--model", "x", "--tokenizer", "gpt2"}),
          "--model and --tokenizer exclude each other", 2);
  refused(chats.prepare("data", chats.files() + Args{"--strict-data"}),
          "line 41: its keys are none", 1);
  refused(chats.prepare("data", {"--chat", chats.folder / "missing.jsonl"}), "missing.jsonl", 1);
  check_ended_well(chats.prepare("data", chats.files() + Args{"--tokenizer", "bpe:270"}));
  refused(chats.prepare("data", chats.files()), "--overwrite replaces it", 1);
  const std::string data = (chats.folder / "data").string();
  refused(chats.train("run", {"--data", data, "--batches", "random"}),
          "batches of conversations are packed", 2);
  refused(chats.train("run", {"--data", data, "--tokenizer", "gpt2"}),
          "has tokens of the tokenizer", 1);
  refused(chats.train("run", {"--data", data + ":2", data}), "give it alone", 1);
  fs::resize_file(chats.folder / "data/val_turns.bin", 8);
  refused(chats.train("run", {"--data", data}), "it was cut or replaced", 1);
}

TEST_CASE("train-gpt mixes texts by weights, and goes on to the same bits", "[prepare_chat]") {
  const TempFolder folder;
  const std::string a = folder.put("a.txt", tiny_text()).string();
  folder.put("b/one.txt", std::string(600, 'x') + "\n");
  const std::string b = (folder / "b").string();
  for (const std::string batches : {"random", "epochs"}) {
    const auto args = [&](const std::string& run, int iters) {
      return without(tiny_run("", folder / run, iters), "--corpus") +
             Args{"--corpus", a + ":2", b + "/:1", "--batches", batches};
    };
    const Result r = train(args("whole", 10));
    check_ended_well(r);
    CHECK_THAT(r.out, ContainsSubstring("a.txt:2 + b: ") && ContainsSubstring("; a pass is ") &&
                          ContainsSubstring(" % a.txt:2, "));
    check_ended_well(train(args("parts", 5)));
    check_ended_well(train(resume_run(folder / "parts", 10)));
    CHECK(TempFolder::get(folder / "whole/model.safetensors") ==
          TempFolder::get(folder / "parts/model.safetensors"));
    const Result other = train(resume_run(folder / "parts", 12) + Args{"--corpus", a + ":3", b});
    CHECK(other.code == 1);
    CHECK_THAT(other.err, ContainsSubstring("was made of another text"));
    for (const char* run : {"whole", "parts"}) fs::remove_all(folder / run);
  }
  const Result bad = train(tiny_run(a + ":0", folder / "run", 5));
  CHECK(bad.code == 2);
  CHECK_THAT(bad.err, ContainsSubstring("a weight is above 0"));
}

TEST_CASE("prepared folders are mixed by weights", "[prepare_chat]") {
  const TempFolder folder;
  for (const char* name : {"a", "b"}) {
    const auto text = folder.put(std::string(name) + ".txt", tiny_text() + name);
    check_ended_well(run_program(
        "prepare", {"--corpus", text, "--out-dir", folder / name, "--tokenizer", "gpt2"}));
  }
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const Args args = without(without(tiny_run("", folder / "run", 5), "--corpus"), "--tokenizer");
  const Result r = train(args + Args{"--data", a + ":2", b});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("a:2 + b: ") && ContainsSubstring("a pass is 66."));
  check_ended_well(train(resume_run(folder / "run", 7)));
}
