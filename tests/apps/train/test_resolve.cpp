// The plan of train-gpt, of arguments and facts: no text is read here, and no program is started.

#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_args.h"

using namespace tapegrad;

namespace {

gpt::Plan resolved(const Args& args, const gpt::Facts& facts) {
  return gpt::resolve(parsed_call(args).arguments, facts);
}

// "model vocab_size 31", for all options of a run.
std::vector<std::string> values_of(const gpt::Options& o) {
  std::vector<std::string> values;
  for (const run::Section& section : run::config_of(o, run::kGPTFormat).sections) {
    for (const auto& [name, value] : section.values) {
      values.push_back(section.name + " " + name + " " + run::value_text(value));
    }
  }
  return values;
}

gpt::Facts of_text(gpt::TextFacts text) { return {.text = std::move(text)}; }

std::shared_ptr<const run::OpenedModel> opened(const nn::DecoderConfig& config) {
  return std::make_shared<run::OpenedModel>(
      run::OpenedModel{.config = config,
                       .tuning = {},
                       .tokenizer = data::Tokenizer::of_characters(std::string_view("abcde")),
                       .weights = {}});
}

// The model of started().
gpt::Facts of_start(const nn::DecoderConfig& config) {
  gpt::Facts facts;
  facts.models.start = opened(config), facts.models.start_path = "/base";
  facts.models.checkpoint = "best", facts.models.tokenizer = "/base";
  return facts;
}

// As if the call had --init-from base, where nothing is.
gpt::Arguments started(const Args& args) {
  gpt::Arguments arguments = parsed_call(args).arguments;
  arguments.options.call.folder.init_from = "base";
  return arguments;
}

// What a plan has in place of the values of another one.
struct Row {
  const char* what;
  Args args, other;
  gpt::Facts facts;
  std::vector<std::string> values;
};

std::vector<Row> rows() {
  const Args text = {"--preset", "char-cpu", "--corpus", "text.txt"};
  gpt::Facts tokens;
  tokens.corpus_is_tokens = true;
  return {
      {"nothing is open", text, text, {}, {}},
      {"the vocabulary is the text's",
       text,
       text,
       of_text({.vocab_size = 31}),
       {"model vocab_size 31"}},
      {"a tokenizer that was given stays",
       text + Args{"--tokenizer", "bpe:300"},
       text,
       of_text({.vocab_size = 300, .tokenizer = "gpt2"}),
       {"data tokenizer \"bpe:300\"", "model vocab_size 300"}},
      {"that of folders of tokens is theirs",
       {"--preset", "char-cpu", "--data", "tokens"},
       {"--preset", "char-cpu", "--data", "tokens"},
       of_text({.vocab_size = 31, .tokenizer = "gpt2"}),
       {"data tokenizer \"gpt2\"", "model vocab_size 31"}},
      {"a lower rate lowers the end of the schedule, too",
       text + Args{"--learning-rate", "1e-5"},
       text,
       {},
       {"optimizer learning_rate 1e-05", "optimizer min_lr 1.0000000000000002e-06"}},
      {"an end that was given stays",
       text + Args{"--learning-rate", "1e-5", "--min-lr", "1e-6"},
       text,
       {},
       {"optimizer learning_rate 1e-05", "optimizer min_lr 1e-06"}},
      {"the model sees a sequence at once",
       text + Args{"--block-size", "32"},
       text,
       {},
       {"data block_size 32", "model block_size 32"}},
      {"--epochs implies their batches",
       text + Args{"--epochs", "3"},
       text,
       {},
       {"data batches \"epochs\"", "passes epochs 3"}},
      {"epochs become steps when their length is known",
       text + Args{"--epochs", "3", "--gradient-accumulation-steps", "4"},
       text,
       of_text({.vocab_size = 31, .batches_per_epoch = 6}),
       {"data batches \"epochs\"", "model vocab_size 31", "optimizer max_iters 5",
        "optimizer gradient_accumulation_steps 4"}},  // 18 batches; the last step begins another
      {"--max-iters replaces the epochs of a preset",
       {"--preset", "book-124m", "--max-iters", "7"},
       {"--preset", "book-124m"},
       of_text({.vocab_size = 31, .batches_per_epoch = 6}),
       {"model vocab_size 31", "optimizer max_iters 7", "passes epochs null"}},
      {"tables of n-grams that the model lacks have no decay",
       {"--preset", "char-fast", "--ngrams", "1"},
       {"--preset", "char-fast"},
       {},
       {"model ngrams 1", "optimizer decay []"}},
      {"a preset that is sized takes heads and rate for a width that was given",
       {"--preset", "fast", "--gflops", "1", "--n-embd", "256"},
       {"--preset", "fast", "--gflops", "1"},
       {},
       {"model n_head 8", "model n_embd 256", "optimizer learning_rate 0.003"}},
      {"conversations are packed",
       {"--preset", "book-124m", "--chat", "chats.jsonl"},
       {"--preset", "book-124m"},
       {.is_chat = true},
       {"data batches \"packed\"", "data stride null"}},
      {"--dtype auto is what is faster",
       {"--preset", "gpt2-124m"},
       {"--preset", "gpt2-124m"},
       {.faster = Precision::bf16},
       {"optimizer dtype \"bf16\""}},
  };
}

}  // namespace

TEST_CASE("a plan is what was given, and what follows from it and from facts", "[resolve]") {
  for (const Row& row : rows()) {
    CAPTURE(row.what);
    const std::vector<std::string> before = values_of(parsed_call(row.other).arguments.options);
    std::vector<std::string> changed;
    for (const std::string& value : values_of(resolved(row.args, row.facts))) {
      const bool is_text = value.starts_with("data corpus") || value.starts_with("data chat") ||
                           value.starts_with("data data");
      const bool is_old = std::find(before.begin(), before.end(), value) != before.end();
      if (!is_old && !is_text) changed.push_back(value);
    }
    CHECK(changed == row.values);
  }
}

TEST_CASE("a plan of the same arguments and facts is the same, and changes neither", "[resolve]") {
  const gpt::ParsedCall call = parsed_call({"--corpus", "text.txt", "--epochs", "3"});
  const auto before = values_of(call.arguments.options);
  const gpt::Facts facts = of_text({.vocab_size = 31, .batches_per_epoch = 6});
  CHECK(values_of(gpt::resolve(call.arguments, facts)) ==
        values_of(gpt::resolve(call.arguments, facts)));
  CHECK(values_of(call.arguments.options) == before);
  CHECK(facts.text.value().batches_per_epoch == 6);
  CHECK(call.plan.epochs.epochs == 3);
  CHECK_FALSE(call.plan.call.max_minutes);  // of the preset
}

TEST_CASE("a fact that is added changes only what it decides", "[resolve]") {
  gpt::Arguments arguments =
      parsed_call({"--preset", "char-cpu", "--corpus", "text.txt", "--epochs", "3"}).arguments;
  gpt::Facts facts;
  std::vector<std::string> before = values_of(gpt::resolve(arguments, facts));
  const auto changed = [&] {
    const std::vector<std::string> now = values_of(gpt::resolve(arguments, facts));
    std::vector<std::string> values;
    for (const std::string& value : now) {
      if (std::find(before.begin(), before.end(), value) == before.end()) values.push_back(value);
    }
    before = now;
    return values;
  };
  using Values = std::vector<std::string>;
  CHECK(changed() == Values{});
  facts.models.teacher = opened({}), facts.models.teacher_path = "/big";
  CHECK(changed() == Values{"teaching teacher \"/big\""});
  facts.faster = Precision::bf16;
  CHECK(changed() == Values{});  // nobody asks for --dtype auto
  facts.text = gpt::TextFacts{.vocab_size = 31};
  CHECK(changed() == Values{"model vocab_size 31"});
  facts.text->batches_per_epoch = 6;
  CHECK(changed() == Values{"optimizer max_iters 18", "passes epochs null"});
  facts.teacher = "a fingerprint";
  CHECK(changed() == Values{"teaching teacher_base \"a fingerprint\""});
}

TEST_CASE("a run that starts from a model has its options", "[resolve]") {
  nn::DecoderConfig config;
  config.n_layer = 3, config.n_head = 2, config.n_embd = 16, config.block_size = 64;
  const gpt::Facts facts = of_start(config);
  const gpt::Plan plan = gpt::resolve(started({}), facts);
  CHECK(plan.model.n_layer == 3);
  CHECK(plan.text.block_size == 64);
  CHECK(plan.text.tokenizer == "/base");
  CHECK(plan.tuning.started_from == "/base");
  CHECK(plan.tuning.checkpoint == "best");
  const gpt::Plan cut = gpt::resolve(started({"--block-size", "32"}), facts);
  CHECK(cut.text.block_size == 32);
  CHECK(cut.model.block_size == 32);  // learned positions
  const auto refused = [&](const Args& args, const std::string& why) {
    check_fails([&] { gpt::resolve(started(args), facts); }, 2, why);
  };
  refused({"--n-layer", "4"}, "--n-layer 4 does not fit the model in base, which has 3");
  refused({"--block-size", "65"}, "more than the 64 positions of the model in base");
}

TEST_CASE("adapters that are given say what they are", "[resolve]") {
  gpt::Facts facts = of_start({});
  facts.models.adapter = run::Adapter{.options = {.rank = 5}, .tensors = {}};
  facts.models.adapter_path = "/adapter";
  const gpt::Plan plan = gpt::resolve(started({}), facts);
  CHECK(plan.tuning.adapter == "/adapter");
  CHECK(plan.tuning.lora_rank == 5);
  gpt::Arguments both = parsed_call({"--lora-scaling", "rslora"}).arguments;
  both.options.call.folder.init_from = "base";
  check_fails([&] { gpt::resolve(both, facts); }, 2, "--lora-scaling and --adapter exclude");
}

TEST_CASE("a run that is resumed has its own dtype, and warms up anew if asked", "[resolve]") {
  gpt::Arguments arguments = parsed_call({}).arguments;
  arguments.options.call.folder = {.out_dir = "run", .init_from = run::kResume};
  run::OptimizerOptions& optimizer = arguments.options.optimizer;
  optimizer.dtype = run::TrainDtype::automatic;
  optimizer.warmup_iters = 5, optimizer.lr_decay_iters = 70;
  const auto plan = [&](bool default_warmup, bool restart) {
    arguments.stored = cli::StoredRun{{}, run::TrainDtype::bf16, default_warmup};
    arguments.options.call.schedule_restart = restart;
    return gpt::resolve(arguments, {.faster = Precision::full}).optimizer;
  };
  CHECK(plan(true, false).dtype == run::TrainDtype::bf16);
  CHECK(plan(true, false).warmup_iters == 5);
  CHECK(plan(true, false).lr_decay_iters == 70);
  CHECK_FALSE(plan(true, true).warmup_iters);
  CHECK_FALSE(plan(true, true).lr_decay_iters);
  CHECK(plan(false, true).warmup_iters == 5);
}

TEST_CASE("a run that is resumed has its steps, unless it is given epochs", "[resolve]") {
  const auto plan = [](const Args& args) {
    gpt::Arguments arguments = parsed_call(args).arguments;
    arguments.options.call.folder = {.out_dir = "run", .init_from = run::kResume};
    if (args.empty()) arguments.options.epochs.epochs = 10;  // of the run's config
    return gpt::resolve(arguments, {});
  };
  CHECK_FALSE(plan({}).epochs.epochs);
  CHECK_FALSE(plan({}).call.max_minutes);
  CHECK(plan({"--epochs", "3"}).epochs.epochs == 3);
  CHECK(plan({"--epochs", "3"}).text.batches == run::BatchKind::random);
}

TEST_CASE("each process has a batch of a step, unless their number is given", "[resolve]") {
  const auto batches = [](const Args& args) {
    gpt::Arguments arguments = parsed_call(args).arguments;
    arguments.processes = 3;
    return gpt::resolve(arguments, {}).optimizer.gradient_accumulation_steps;
  };
  CHECK(batches({"--preset", "char-cpu"}) == 3);
  CHECK(batches({"--preset", "char-cpu", "--gradient-accumulation-steps", "4"}) == 4);
}

TEST_CASE("a preset limits the epochs of a new run", "[resolve]") {
  gpt::Arguments arguments = parsed_call({"--preset", "fast", "--gflops", "1"}).arguments;
  const gpt::Facts facts = of_text({.vocab_size = 31, .train_tokens = 100'000});
  const gpt::Plan plan = gpt::resolve(arguments, facts);
  REQUIRE(plan.most_epochs);
  CHECK(plan.most_iters);
  arguments.options.call.folder = {.out_dir = "run", .init_from = run::kResume};
  CHECK_FALSE(gpt::resolve(arguments, facts).most_epochs);
  CHECK_FALSE(gpt::resolve(arguments, facts).most_iters);
}

TEST_CASE("a text from stdin is no text that a run could read again", "[resolve]") {
  CHECK(resolved({"-"}, {}).text.corpus == std::vector<std::string>{"-"});
  CHECK(resolved({"-"}, of_text({.vocab_size = 31})).text.corpus.empty());
}

TEST_CASE("folders of tokens among texts are --data", "[resolve]") {
  gpt::Facts facts;
  facts.corpus_is_tokens = true;
  const gpt::Plan plan = resolved({"--corpus", "tokens"}, facts);
  CHECK(plan.text.corpus.empty());
  REQUIRE(plan.text.data.size() == 1);
  CHECK_THAT(plan.text.data[0], ContainsSubstring("tokens"));
  CHECK(plan.text.tokenizer.empty());
}

TEST_CASE("a plan keeps the fingerprints of models that must stay as they are", "[resolve]") {
  gpt::Arguments arguments = parsed_call(tiny_run("text.txt", "run", 3)).arguments;
  arguments.options.tuning.base = "stored", arguments.options.teaching.base = "before";
  const gpt::Plan plan = gpt::resolve(arguments, {.base = "a start", .teacher = "a teacher"});
  CHECK(plan.tuning.base == "a start");
  CHECK(plan.teaching.base == "a teacher");
  const gpt::Plan other = gpt::resolve(arguments, {});
  CHECK(other.tuning.base == "stored");
  CHECK(other.teaching.base == "before");
}

TEST_CASE("--recompute auto goes by the room for a step that keeps all", "[resolve]") {
  double asked = 0;
  const auto plan_with = [&](bool room) {
    const auto fits = [&, room](const run::MemoryEstimate& step) {
      asked = step.total;
      return room;
    };
    return resolved(
        tiny_run("text.txt", "run", 3) + Args{"--recompute", "auto"},
        {.text = gpt::TextFacts{.vocab_size = 31}, .fits = fits, .room = "1 MB is available"});
  };
  const gpt::Plan roomy = plan_with(true), narrow = plan_with(false);
  CHECK_FALSE(roomy.extras.recomputes());
  CHECK(narrow.extras.recomputes());
  CHECK(asked == gpt::memory_of(roomy).total);
  CHECK(asked > gpt::memory_of(narrow).total);
  const std::string why =
      ": without it, a step takes " + size_text(asked) + ", and 1 MB is available";
  CHECK(roomy.recompute_note == "off" + why);
  CHECK(narrow.recompute_note == "on" + why);
}

TEST_CASE("the text is read only if it decides the vocabulary, the memory if it decides",
          "[resolve]") {
  const auto facts = [](const Args& args) {
    const gpt::ParsedCall call = parsed_call(args);
    return gpt::with_vocabulary(call.facts, call.plan);
  };
  const gpt::Facts known = facts({"--corpus", "none.txt", "--tokenizer", "bpe:300"});
  CHECK(known.text.value().vocab_size == 300);
  CHECK_FALSE(known.fits);
  CHECK(facts({"--tokenizer", "bpe:300", "--recompute", "auto"}).fits);
  check_fails([&] { facts({"--corpus", "none.txt"}); }, 1, "none.txt");
}
