#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/apps/sample/speculation.h"
#include "tapegrad/apps/serve/model_server.h"
#include "tapegrad/apps/serve/models/followed_model.h"
#include "tapegrad/apps/serve/models/models_folder.h"
#include "tapegrad/apps/serve/models/single_model.h"
#include "tapegrad/apps/serve/queued_errors.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"

namespace tapegrad {
namespace {

constexpr int kMostPort = 65535;
constexpr std::int64_t kMostKeyBytes = 64 << 10;
constexpr std::uint64_t kMebi = 1 << 20;
constexpr std::chrono::milliseconds kLook{50};

struct Options {
  std::string model, checkpoint{run::kLast}, weights{run::kStored}, name, api_key;
  std::string models_dir;
  std::optional<std::int64_t> models_memory;  // MiB
  std::vector<std::string> words;
  serve::EndpointOptions endpoints{.listen = {.port = 8080, .or_next_port = false}};
  std::vector<std::string> lora;  // NAME=PATH
  bool follow = false, end_with_stdin = false;
  std::int64_t max_connections = 256, max_body = 4, max_waiting = 64, max_time = 600, grace = 30;
  std::optional<std::int64_t> max_connections_per_address;
  std::optional<std::int64_t> cache_memory;  // MiB
  serve::ServedOptions served;
  serve::ServerBounds bounds;
  cli::ComputeOptions compute;
};

// What is said of one model makes no sense for a folder of them.
void refuse_beside_models_dir(const Options& o) {
  const std::pair<bool, const char*> given[] = {
      {!o.model.empty() || !o.words.empty(), "a model"},   {!o.name.empty(), "--name"},
      {o.checkpoint != run::kLast, "--checkpoint"},        {!o.lora.empty(), "--lora"},
      {o.served.speculation.draft.has_value(), "--draft"}, {o.follow, "--follow"}};
  for (const auto& [is_given, what] : given) {
    if (is_given)
      cli::usage_error("--models-dir serves all models of a folder: leave {} out", what);
  }
}

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(
      call.name, "Serves a GPT by HTTP, as OpenAI's interface has it, with a page to talk to.");
  cli.words(o.words, "MODEL", "the same as --model MODEL");
  cli.group("Model");
  cli("model", o.model, "a run folder, or a model of another program", {.value = "PATH"});
  cli.alias("-m", "--model");
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli.choice("weights", o.weights, run::quantized_weights(),
             "how weights lie in memory: as the files have them, or converted to a type");
  cli("name", o.name, "name of the model for clients [the last name of its path]");
  cli("lora", o.lora,
      "LoRA adapters that requests choose by this name as their model: a folder of PEFT's, a GGUF, "
      "or a run with --lora-rank; may be repeated",
      {.value = "NAME=PATH"});
  cli.one_value_each("--lora");
  cli("follow", o.follow,
      "read the newest checkpoint of a run that trains, before an answer begins while no other one "
      "is written");
  cli("models_dir", o.models_dir,
      "serve all models that lie in this folder, in place of one: each is loaded when a request "
      "names it",
      {.value = "FOLDER"});
  cli("models_memory", o.models_memory,
      "memory for weights, keys and values of all models that are loaded, in MiB; the idle one "
      "that was used the longest ago makes room [three quarters of what is free]",
      {.least = 1});
  cli.group("Clients");
  cli("port", o.endpoints.listen.port, "where it listens; 0: any port that is free",
      {.least = 0, .most = kMostPort});
  cli("host", o.endpoints.listen.host,
      "the address to listen at; other computers reach 0.0.0.0, which needs --api-key");
  cli("api_key", o.api_key, "keys of which clients must send one, each on a line of this file",
      {.value = "FILE"});
  cli("allow_host", o.endpoints.names,
      "names of this server that requests may have in their Host header", {.value = "NAME…"});
  cli("allow_origin", o.endpoints.origins,
      "sites whose pages may ask, by the browsers of those who visit them: https://app.example; "
      "may be repeated",
      {.value = "URL"});
  cli.one_value_each("--allow-origin");
  cli("strict", o.endpoints.strict,
      "refuse requests with fields that this server does not know, which it ignores and names "
      "otherwise");
  cli("max_connections", o.max_connections, "connections at once", {.least = 1, .most = 10000});
  cli("max_connections_per_address", o.max_connections_per_address,
      "of these, from one address [all of them at 127.0.0.1, else a quarter]",
      {.least = 1, .most = 10000});
  cli("max_body", o.max_body, "size of a request, in MiB", {.least = 1, .most = 64});
  cli.group("Answers");
  cli("parallel", o.bounds.max_sequences, "texts that are made side by side; each stays the same",
      {.least = 1, .most = 4096});
  cli("ctx", o.bounds.ctx, "tokens that a text may have, its prompt included [the model's]",
      {.least = 2});
  cli("cache_memory", o.cache_memory,
      "memory for keys and values of all texts, in MiB [half of what is free, at most --parallel "
      "times --ctx]",
      {.least = 1});
  cli("cache", o.bounds.cache,
      "how keys and values are stored: f32, as the model computes them; or f16 or q8_0, in 0.5 or "
      "0.27 of the memory, which changes texts a little [f16 where weights are stored in less than "
      "f32, else f32]");
  cli.options(o.served.speculation);
  cli("special_in_messages", o.served.special_in_messages,
      "let messages spell special tokens such as <|im_end|>, which are text otherwise");
  cli("reasoning_budget", o.served.reasoning_budget,
      "tokens that a model may reason before it answers; then the end mark follows [as many as it "
      "likes]",
      {.least = 0});
  cli("max_waiting", o.max_waiting,
      "requests that wait to be read, and again as many that wait for their turn; others get "
      "status 429",
      {.least = 1, .most = 100000});
  cli("max_time", o.max_time, "the longest time of an answer, in seconds",
      {.least = 1, .most = 1e6});
  cli("grace", o.grace, "time for running answers when a signal ends the server, in seconds",
      {.least = 0, .most = 1e6});
  cli("end_with_stdin", o.end_with_stdin,
      "end when stdin ends, too: for a program that starts this one");
  cli.group("Log");
  cli("log", o.endpoints.log, "how requests are logged on stderr");
  cli("log_texts", o.endpoints.log_texts, "also log the texts of requests and answers");
  cli.group("Computation");
  cli.options(o.compute);
  cli.example("tapegrad serve runs/notes-1", "http://127.0.0.1:8080/ has a page to talk to");
  cli.example("tapegrad serve SmolLM2-135M-Instruct.gguf --ctx 2048 --name smol",
              "a model of another program, for clients that call it smol");
  cli.example("tapegrad serve base.gguf --lora poet=adapters/poet --lora clerk=runs/clerk-1",
              "one model with two adapters, which requests call \"poet\" and \"clerk\"");
  cli.example("tapegrad serve --models-dir runs", "all runs of a folder, one model each");
  cli.example("tapegrad serve runs/notes-1 --host 0.0.0.0 --api-key keys.txt",
              "for other computers, with a key");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (o.models_dir.empty()) {
    if (o.models_memory) cli::usage_error("--models-memory needs --models-dir FOLDER");
    cli::take_model(o.model, o.words);
  } else {
    refuse_beside_models_dir(o);
  }
  cli::refuse_words(o.words);
  const std::string& host = o.endpoints.listen.host;
  bool is_public = false;
  cli::as_usage([&] {
    is_public = http::is_public(host);
    o.served.speculation.validate();
  });
  if (is_public && o.api_key.empty()) {
    cli::usage_error("--host {} is open to other computers: give --api-key FILE, too", host);
  }
  for (const std::string& origin : o.endpoints.origins) {
    if (!http::is_origin(origin)) {
      cli::usage_error(
          "--allow-origin: '{}' must be the address of a site as its browsers send it, without a "
          "path: https://app.example or http://localhost:3000",
          origin);
    }
  }
  cli::use_compute(o.compute);
  return o;
}

std::vector<std::string> read_keys(const std::string& file) {
  std::vector<std::string> keys;
  std::string line;
  for (const char c : read_file(file, kMostKeyBytes) + "\n") {
    if (c == '\n' || c == '\r') {
      if (!line.empty()) keys.push_back(std::exchange(line, {}));
    } else {
      check(c > ' ' && c < 127, "{}: a key has a character that a header may not have", file);
      line += c;
    }
  }
  check(!keys.empty(), "{}: there is no key in it: write one on each line", file);
  return keys;
}

void settle(Options& o) {
  if (o.name.empty()) o.name = serve::name_of_model(o.model);
  if (!o.api_key.empty()) o.endpoints.keys = read_keys(o.api_key);
  http::Limits& limits = o.endpoints.listen.limits;
  limits.connections = static_cast<std::size_t>(o.max_connections);
  const bool is_public = http::is_public(o.endpoints.listen.host);
  limits.connections_of_address = static_cast<std::size_t>(o.max_connections_per_address.value_or(
      is_public ? std::max<std::int64_t>(1, o.max_connections / 4) : o.max_connections));
  limits.body_bytes = static_cast<std::size_t>(o.max_body) * kMebi;
  limits.event_bytes = kMebi;
  limits.read_time = limits.event_time = std::chrono::seconds(30);
  o.bounds.max_waiting = o.max_waiting;
  o.endpoints.max_reading = static_cast<std::size_t>(o.max_waiting);
  o.bounds.max_time = o.endpoints.max_time = std::chrono::seconds(o.max_time);
  if (o.cache_memory) {
    o.bounds.cache_bytes = static_cast<std::uint64_t>(*o.cache_memory) * kMebi;
  }
}

// "poet=adapters/poet" → its two parts.
std::pair<std::string, std::string> named_path(const std::string& text) {
  const std::size_t at = text.find('=');
  check(at != text.npos && at > 0 && at + 1 < text.size(),
        "--lora: '{}' must be a name and a path: NAME=PATH", text);
  return {text.substr(0, at), text.substr(at + 1)};
}

std::vector<serve::NamedModel> names_of(const Options& o) {
  std::vector<serve::NamedModel> named = {{o.name}};
  for (const std::string& lora : o.lora) {
    const std::string name = named_path(lora).first;
    check(std::ranges::find(named, name, &serve::NamedModel::name) == named.end(),
          "--lora: the name '{}' is taken", name);
    named.push_back({name, std::ssize(named) - 1});
  }
  return named;
}

run::TextModel load(const Options& o) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  for (const std::string& lora : o.lora) run::offer_adapter(opened, named_path(lora).second);
  return run::load_quantized(std::move(opened), o.weights);
}

// The models of a folder, whose engines have threads of their own.
int serve_folder(Options o) {
  settle(o);
  catch_interrupts();
  const serve::QueuedErrors errors;  // outlives all threads that print
  std::optional<std::uint64_t> memory;
  if (o.models_memory) memory = static_cast<std::uint64_t>(*o.models_memory) * kMebi;
  serve::ModelsFolder models({.folder = o.models_dir,
                              .memory = memory,
                              .weights = o.weights,
                              .bounds = o.bounds,
                              .served = o.served});
  serve::Endpoints endpoints(models, o.endpoints);
  // An exception leaves no loader that still calls the endpoints.
  const struct Stop {
    serve::ModelsFolder& models;
    ~Stop() { models.stop(); }
  } stop{models};
  fmt::print("{}: {} models, {} MiB for those that are loaded\nserving: {} (Ctrl-C ends it)\n",
             o.models_dir, models.size(), models.memory() / kMebi, endpoints.listener().url());
  std::fflush(stdout);
  const auto wait = [&](const std::function<bool()>& ends) {
    while (!ends() && !models.broken()) std::this_thread::sleep_for(kLook);
    endpoints.end();  // behind a failure, it has not
    models.stop();
  };
  const int code = serve::work_until_interrupted(
      wait, endpoints, {.grace = std::chrono::seconds(o.grace), .with_stdin = o.end_with_stdin});
  return models.broken() ? 1 : code;
}

int serve_model(Options o) {
  settle(o);
  catch_interrupts();
  const serve::QueuedErrors errors;  // outlives all threads that print
  std::vector<serve::NamedModel> named = names_of(o);
  sampling::DraftModel draft;
  if (o.served.speculation.draft) {
    draft.open(o.served.speculation, run::open_model(o.model, o.checkpoint), o.model);
  }
  std::optional<serve::FollowedModel> followed;
  std::optional<run::TextModel> fixed;
  if (o.follow) {
    followed.emplace(o.model, o.checkpoint, [&o] { return load(o); });
  } else {
    fixed.emplace(load(o));
  }
  const run::TextModel& model = followed ? followed->model() : *fixed;
  draft.load();
  if (draft.gpt() != nullptr) o.bounds.draft = &draft.gpt()->config;
  sampling::note_other_types(run::quantized_type(o.weights), model.params);
  if (!o.bounds.cache) o.bounds.cache = nn::usual_cache(model.params);
  serve::EnginePlan plan = serve::plan_engine(model.gpt.config, o.bounds);
  plan.engine.model = o.model;
  if (followed) plan.engine.renew = [&followed] { return followed->renew(); };
  run::JsonMasks json_masks = serve::masks_of(model.tokenizer);
  o.served.draft = draft.gpt();
  const serve::ServedModel served =
      serve::served_model(model, std::move(named), plan.context, json_masks, o.served);
  serve::Engine engine(model.gpt, plan.engine);
  serve::SingleModel models(served, engine);
  serve::Endpoints endpoints(models, o.endpoints);
  for (const serve::NamedModel& one : served.named) {
    if (one.adapter)
      fmt::print("{}: {} with {}\n", one.name, o.name,
                 named_path(o.lora[static_cast<std::size_t>(*one.adapter)]).second);
  }
  fmt::print("{}: {} tokens of context, {} texts side by side\nserving: {} (Ctrl-C ends it)\n",
             o.name, plan.context, o.bounds.max_sequences, endpoints.listener().url());
  std::fflush(stdout);
  return serve::work_until_interrupted(
      [&](const std::function<bool()>& ends) { engine.run(ends); }, endpoints,
      {.grace = std::chrono::seconds(o.grace), .with_stdin = o.end_with_stdin});
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    auto options = parse(call);
    if (!options) return 0;
    return options->models_dir.empty() ? serve_model(std::move(*options))
                                       : serve_folder(std::move(*options));
  });
}

const cli::Command kCommand("serve", cli::CommandGroup::use,
                            "answer requests by HTTP, and a page to talk to a model", run);

}  // namespace
}  // namespace tapegrad
