// Models that are loaded in this process, so that tests can hold the loader, or a model, and look
// on.

#include <future>
#include <mutex>
#include <thread>

#include "tapegrad/apps/serve/models/models_folder.h"
#include "tapegrad/apps/serve/models/stopped_source.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/tests/apps/serve/models/many_models.h"

using namespace tapegrad;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMebi = 1 << 20;

// Takes what would be printed on stderr, and calls `look` first.
class Log {
 public:
  explicit Log(std::function<void(const std::string&)> look = {}) {
    redirect_errors([this, look = std::move(look)](const std::string& text) {
      if (look) look(text);
      const std::lock_guard lock(mutex_);
      text_ += text;
    });
  }
  ~Log() { redirect_errors({}); }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

// Each of the tiny models takes 2 MiB and 49 KiB.
serve::ModelsOptions options_of(const ManyModels& models, std::uint64_t mebi = 64) {
  return {.folder = models.path,
          .memory = mebi * kMebi,
          .bounds = {.max_sequences = 64, .cache_bytes = 2 * kMebi}};
}

struct Server {
  Log log;
  serve::ModelsFolder folder;
  serve::Endpoints endpoints;
  const int port;

  explicit Server(serve::ModelsOptions options, const serve::EndpointOptions& more = {})
      : folder(std::move(options)), endpoints(folder, more), port(endpoints.listener().port()) {}
  ~Server() { folder.stop(); }

  Reply send(const Fields& body) const { return post(port, "/v1/completions", body.dump()); }
  std::string text(const std::string& model, int seed = 3) const {
    const Reply reply = send(request_for(model, seed));
    INFO(reply.head << "\n" << reply.body);
    REQUIRE(reply.status == 200);
    return Fields::parse(reply.body)["choices"][0]["text"];
  }
  std::string status(const std::string& model) const { return status_of(port, model); }
  serve::HeldModel hold(const std::string& model) {
    text(model);
    return folder.find(model).model;
  }
};

constexpr auto kLongest = 60s;  // of what takes milliseconds

template <class Condition>
bool comes(const Condition& condition) {
  for (auto waited = 0ms; waited < kLongest; waited += 5ms) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

template <class Value>
Value awaited(std::future<Value> future) {
  REQUIRE(future.wait_for(kLongest) == std::future_status::ready);
  return future.get();
}

// Something that another thread waits for.
class Gate {
 public:
  ~Gate() { open(); }
  void open() {
    if (!std::exchange(is_open_, true)) promise_.set_value();
  }
  std::shared_future<void> opened() const { return opened_; }

 private:
  std::promise<void> promise_;
  const std::shared_future<void> opened_ = promise_.get_future().share();
  bool is_open_ = false;
};

// Loads a model, and holds the loader's thread from then on.
class HeldLoader {
 public:
  HeldLoader(serve::ModelsFolder& folder, const std::string& model) {
    const auto inside = std::make_shared<std::promise<void>>();
    folder.load(
        model,
        [inside, opened = gate_.opened()](const auto&, const auto&) {
          inside->set_value();
          opened.wait();
        },
        [] { return true; });
    awaited(inside->get_future());
  }
  void open() { gate_.open(); }

 private:
  Gate gate_;
};

// Holds an engine's thread.
class HeldJob : public serve::Job {
 public:
  HeldJob(std::shared_ptr<std::promise<void>> inside, const Gate& gate)
      : inside_(std::move(inside)), opened_(gate.opened()) {
    pieces = 1;
  }
  void work(std::size_t) override {
    inside_->set_value();
    opened_.wait();
  }
  void finish() override {}
  void fail(const serve::Refusal&) override {}

 private:
  const std::shared_ptr<std::promise<void>> inside_;
  const std::shared_future<void> opened_;
};

std::string left_requests() {
  return R"(tapegrad_requests_total{path="/v1/completions",status="499"})";
}

serve::Refusal refusal_of_load(serve::ModelsFolder& folder, const std::string& model) {
  const auto refused = std::make_shared<std::promise<serve::Refusal>>();
  folder.load(
      model, [refused](const auto&, const serve::Refusal& why) { refused->set_value(why); },
      [] { return true; });
  return awaited(refused->get_future());
}

}  // namespace

TEST_CASE("requests for a model go on while another one is loaded", "[serve]") {
  const ManyModels models({"a", "b", "c"});
  Server server(options_of(models));
  const std::string text = alone(models.path / "a");
  CHECK(server.text("a") == text);
  HeldLoader loader(server.folder, "b");
  Browser waits = begun(server.port, request_for("c"));
  REQUIRE(comes([&] { return server.status("c") == "loading"; }));
  for (int i = 0; i < 5; ++i) CHECK(server.text("a") == text);
  CHECK(server.status("c") == "loading");
  loader.open();
  const Reply reply = reply_in(waits.rest());
  REQUIRE(reply.status == 200);
  CHECK(Fields::parse(reply.body)["choices"][0]["text"] == alone(models.path / "c"));
}

TEST_CASE("a server that ends refuses those who wait for the loader", "[serve]") {
  const ManyModels models({"b", "c"});
  Server server(options_of(models));
  std::thread ends;
  Reply reply;
  {
    HeldLoader loader(server.folder, "b");
    Browser waits = begun(server.port, request_for("c"));
    REQUIRE(comes([&] { return server.status("c") == "loading"; }));
    ends = std::thread([&] { server.folder.stop(); });
    CHECK(comes([&] { return refusal_of_load(server.folder, "d").code == "shutting_down"; }));
    loader.open();
    ends.join();
    reply = reply_in(waits.rest());
  }
  CHECK(error_of(reply, 503)["code"] == "shutting_down");
}

TEST_CASE("no tensor is read once a server ends", "[serve]") {
  std::atomic<bool> stops = false;
  const auto source = serve::until(stops, run::open_model(tiny_chat_model().path).weights);
  const std::string name = source->entries().begin()->first;
  CHECK(source->read(name, DType::f32).numel() > 0);
  stops = true;
  CHECK_THROWS_WITH(source->read(name, DType::f32), ContainsSubstring("the server is ending"));
}

TEST_CASE("a model that is held is not dropped: the next one waits until it is not", "[serve]") {
  const ManyModels models({"a", "b"});
  Server server(options_of(models, 3));
  serve::HeldModel held = server.hold("a");
  Browser waits = begun(server.port, request_for("b"));
  REQUIRE(comes([&] { return server.status("b") == "loading"; }));
  CHECK(server.text("a") == alone(models.path / "a"));
  CHECK(server.status("b") == "loading");
  held.reset();
  const Reply reply = reply_in(waits.rest());
  REQUIRE(reply.status == 200);
  CHECK(Fields::parse(reply.body)["choices"][0]["text"] == alone(models.path / "b"));
  CHECK(server.status("a") == "unloaded");
  CHECK(server.status("b") == "loaded");
}

TEST_CASE("a model that waits for room holds up and drops no other one", "[serve]") {
  const ManyModels models({"a", "b", "c", "d"});
  models.add_large("large");
  Server server(options_of(models, 186));  // of which large needs 185
  const serve::HeldModel held = server.hold("a");
  {
    const Browser waits = begun(server.port, request_for("large"));
    REQUIRE(comes([&] { return server.status("large") == "loading"; }));
    for (const char* name : {"b", "c", "d"}) {
      CHECK(server.text(name) == alone(models.path / name));
    }
    for (const char* name : {"b", "c", "d"}) CHECK(server.status(name) == "loaded");
    CHECK(server.status("large") == "loading");
  }
  // Nobody waits for it any more.
  CHECK(comes([&] { return server.status("large") == "unloaded"; }));
}

TEST_CASE("a request waits for room no longer than an answer may take", "[serve]") {
  const ManyModels models({"a", "b"});
  serve::ModelsOptions options = options_of(models, 3);
  options.bounds.max_time = 0s;
  const Log log;
  serve::ModelsFolder folder(options);
  REQUIRE(refusal_of_load(folder, "a").message == "");
  const serve::HeldModel held = folder.find("a").model;
  REQUIRE(held != nullptr);
  const serve::Refusal why = refusal_of_load(folder, "b");
  CHECK(why.status == 503);
  CHECK(why.code == "model_has_no_room");
  CHECK(why.retry_after > 0);
}

TEST_CASE("clients that leave free their places, and nobody's model is not loaded", "[serve]") {
  const ManyModels models({"b", "c", "d"});
  Server server(options_of(models), {.max_reading = 1});
  HeldLoader loader(server.folder, "b");
  for (int i = 1; i <= 3; ++i) {
    {
      const Browser waits = begun(server.port, request_for("c"));
      REQUIRE(comes([&] { return server.status("c") == "loading"; }));
      REQUIRE(comes([&] { return metric_of(server.port, "tapegrad_jobs_waiting") == 1; }));
    }
    REQUIRE(comes([&] { return metric_of(server.port, left_requests()) == i; }));
    REQUIRE(comes([&] { return metric_of(server.port, "tapegrad_jobs_waiting") == 0; }));
    CHECK(server.endpoints.idle());
  }
  Browser last = begun(server.port, request_for("d"));
  REQUIRE(comes([&] { return server.status("d") == "loading"; }));
  loader.open();
  CHECK(reply_in(last.rest()).status == 200);
  CHECK(server.status("c") == "unloaded");  // its turn was before
  CHECK(server.text("c") == alone(models.path / "c"));
}

TEST_CASE("a client that leaves frees its model", "[serve]") {
  const ManyModels models({"a", "b"});
  Server server(options_of(models, 3));
  serve::HeldModel held = server.hold("a");
  const auto inside = std::make_shared<std::promise<void>>();
  Gate gate;
  REQUIRE_FALSE(held->engine.submit(-1, std::make_unique<HeldJob>(inside, gate),
                                    serve::Engine::Clock::now()));
  awaited(inside->get_future());
  {
    const Browser leaves = begun(server.port, request_for("a"));
    REQUIRE(comes([&] { return held->engine.state().waiting == 1; }));
  }
  REQUIRE(comes([&] { return metric_of(server.port, left_requests()) == 1; }));
  held.reset();
  Browser waits = begun(server.port, request_for("b"));
  REQUIRE(comes([&] { return server.status("b") == "loading"; }));
  CHECK(server.status("a") == "loaded");
  gate.open();
  CHECK(reply_in(waits.rest()).status == 200);
  CHECK(metric_of(server.port, "tapegrad_jobs_cancelled_total") == 1);
  CHECK(server.status("a") == "unloaded");
}

TEST_CASE("a model whose files are written to while it is loaded is loaded again", "[serve]") {
  const ManyModels models({"b"});
  // In the loader's thread, between the weights and the last look at the files.
  int loads = 0;
  const auto load = [&](const std::string& file, int writes) {
    loads = 0;
    const Log log([&](const std::string& text) {
      if (text.find("loaded b:") == text.npos) return;
      if (loads++ < writes)
        models.put("b/" + file, std::string(static_cast<std::size_t>(loads), ' '));
    });
    serve::ModelsFolder folder(options_of(models));
    return refusal_of_load(folder, "b");
  };
  CHECK(load("notes.txt", 1).message == "");
  CHECK(loads == 2);
  const serve::Refusal why = load("other.txt", 2);
  CHECK(why.status == 503);
  CHECK(why.code == "model_changes");
  CHECK(why.retry_after > 0);
  // Those of a run that trains.
  CHECK(load("metrics.jsonl", 2).message == "");
  CHECK(loads == 1);
}

TEST_CASE("a broken model is tried again when its files change, or after a time", "[serve]") {
  const ManyModels models({"a"});
  const std::string config = TempFolder::get(models.path / "a/config.json");
  models.put("a/config.json", "{");
  const Log log;
  serve::ModelsOptions options = options_of(models);
  options.try_again = std::chrono::hours(1);
  serve::ModelsFolder patient(options);
  CHECK(patient.find("a").model == nullptr);
  CHECK(refusal_of_load(patient, "a").code == "model_broken");
  CHECK_THROWS_AS(patient.find("a"), serve::Refused);
  options.try_again = 0s;
  serve::ModelsFolder impatient(options);
  CHECK(refusal_of_load(impatient, "a").code == "model_broken");
  CHECK(impatient.find("a").model == nullptr);
  models.put("a/config.json", config);
  CHECK(patient.find("a").model == nullptr);
  CHECK(refusal_of_load(patient, "a").message == "");
  CHECK(patient.find("a").model != nullptr);
}

TEST_CASE("files and their names write no lines of the log", "[serve]") {
  const ManyModels models({"a"});
  models.put("evil\nerror: \x1b[2J", "");
  models.add("b\x1b\n9");
  models.put("b\x1b\n9/config.json", "{");
  const Log log;
  serve::ModelsFolder folder(options_of(models));
  CHECK(refusal_of_load(folder, "b\x1b\n9").code == "model_broken");
  CHECK_THAT(log.text(), ContainsSubstring("evil\\nerror: \\x1b[2J, which is no model\n"));
  CHECK_THAT(log.text(), ContainsSubstring("error: b\\x1b\\n9 cannot be loaded"));
  CHECK_THAT(log.text(), !ContainsSubstring("\x1b"));
}

TEST_CASE("an engine that fails interrupts the server, and tells it", "[serve]") {
  const Log log;
  run::OpenedModel opened = run::open_model(tiny_chat_model().path);
  serve::EnginePlan plan = serve::plan_engine(opened.config, {.cache_bytes = kMebi});
  plan.engine.renew = []() -> bool { fail("a planted fault"); };
  const auto failed = std::make_shared<std::promise<void>>(), unused = failed;
  serve::LoadedModel model(run::load_quantized(std::move(opened), run::kStored), "a", "models/a",
                           plan, {}, [failed] { failed->set_value(); });
  Gate gate;
  REQUIRE_FALSE(model.ready().engine.submit(1, std::make_unique<HeldJob>(unused, gate),
                                            serve::Engine::Clock::now()));
  awaited(failed->get_future());
  CHECK(interrupted());
  forget_interrupt();
  model.join();
  CHECK_THAT(log.text(), ContainsSubstring("the engine of a has failed: a planted fault"));
}
