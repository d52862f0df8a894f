#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/run/plan/step_forecast.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;
using namespace tapegrad::run;

namespace {

// Four buckets, whose gradients are complete after a quarter of backward each.
StepParts four_buckets() {
  StepParts parts{.forward = 1, .backward = 2, .norm = 0.1, .update = 0.3};
  for (int i = 4; i > 0; --i) {
    parts.sizes.push_back(optim::kBucketSize);
    parts.completed.push_back(0.5 * i);
  }
  return parts;
}

constexpr double kBucketBytes = 4.0 * static_cast<double>(optim::kBucketSize);
constexpr Network kFast{.bytes_per_second = 1e15, .latency = 0};

}  // namespace

TEST_CASE("one process takes the sum of its parts, whatever the network", "[forecast]") {
  const StepForecast f =
      forecast_step(four_buckets(), {.batches = 3}, {.bytes_per_second = 1, .latency = 1});
  CHECK_THAT(f.step, Catch::Matchers::WithinRel(3 * 3 + 0.4, 1e-12));
  CHECK(f.sending == 0);
  CHECK(f.moving == 0);
  CHECK(f.hidden() == 1);
}

TEST_CASE("ranks share batches and updates", "[forecast]") {
  const StepForecast f = forecast_step(four_buckets(), {.ranks = 2, .batches = 4}, kFast);
  CHECK_THAT(f.computing, Catch::Matchers::WithinRel(2 * 3 + 0.2, 1e-12));
  CHECK(f.step > f.computing + f.moving);
  CHECK(f.step < f.computing + f.moving + 0.01);  // two small messages
}

TEST_CASE("an update takes as long as that of the rank that owns most", "[forecast]") {
  StepParts parts = four_buckets();
  parts.sizes.pop_back();
  parts.completed.pop_back();
  parts.units = parts.sizes;  // three matrices that cannot be cut, for two ranks
  const StepForecast f = forecast_step(parts, {.ranks = 2, .batches = 4}, kFast);
  CHECK_THAT(f.computing, Catch::Matchers::WithinRel(2 * 3 + 0.4 * 2 / 3, 1e-12));
}

TEST_CASE("what the network takes is hidden but for its end", "[forecast]") {
  // A quarter of a second for the half of a bucket that goes to the other rank.
  const Network network{.bytes_per_second = kBucketBytes / 2 / 0.25, .latency = 0};
  const StepForecast f = forecast_step(four_buckets(), {.ranks = 2, .batches = 2}, network);
  CHECK_THAT(f.sending, Catch::Matchers::WithinRel(8 * 0.25, 1e-9));
  // The last bucket of gradients, and all of the parameters but for the time of the update.
  CHECK(f.waiting > 0.25 + 0.25);
  CHECK(f.waiting < 0.25 + 4 * 0.25);
  CHECK(f.hidden() > 0.3);
  const StepForecast narrow = forecast_step(
      four_buckets(), {.ranks = 2, .batches = 2, .sent = optim::CommDType::bf16}, network);
  CHECK_THAT(narrow.sending, Catch::Matchers::WithinRel(4 * 0.125 + 4 * 0.25, 1e-9));
  CHECK(narrow.step < f.step);
}

TEST_CASE("a slow network decides the time of a step", "[forecast]") {
  const Network network{.bytes_per_second = kBucketBytes / 2 / 10, .latency = 0};
  const StepForecast f = forecast_step(four_buckets(), {.ranks = 2, .batches = 2}, network);
  CHECK(f.step > 80);
  CHECK(f.step < 85);
}

TEST_CASE("ranks that share parameters gather blocks while they compute", "[forecast]") {
  // Four blocks of a bucket each, of which the last one comes first in backward.
  StepParts parts = four_buckets();
  parts.blocks = {{0}, {1}, {2}, {3}, {}};
  const Group group{.ranks = 2, .batches = 4, .shard = optim::Shard::parameters};
  // A quarter of a second for the half of a bucket that another rank has: as long as a forward pass
  // of a block takes, and half as long as backward.
  const Network network{.bytes_per_second = kBucketBytes / 2 / 0.25, .latency = 0};
  const StepForecast f = forecast_step(parts, group, network);
  CHECK_THAT(f.computing, Catch::Matchers::WithinRel(2 * 3 + 0.2, 1e-12));
  // In each of two rounds, four blocks forward and two back, and gradients of four.
  CHECK_THAT(f.sent, Catch::Matchers::WithinRel(2 * 10 * kBucketBytes / 2, 1e-12));
  CHECK_THAT(f.sending, Catch::Matchers::WithinRel(2 * 10 * 0.25, 1e-9));
  // The first block of the first round, and the gradients at the end of the last one.
  CHECK(f.waiting > 0.25 + 2 * 0.25);
  CHECK(f.waiting < f.sending / 2);
  CHECK(f.step > f.computing + f.waiting);
  // Without blocks, all is gathered once, and nothing is hidden.
  parts.blocks = {{0, 1, 2, 3}};
  const StepForecast whole = forecast_step(parts, group, network);
  CHECK_THAT(whole.sent, Catch::Matchers::WithinRel((4 + 2 * 4) * kBucketBytes / 2, 1e-12));
  CHECK_THROWS_WITH(forecast_step(four_buckets(), group, network),
                    ContainsSubstring("blocks of the parameters are not known"));
}

TEST_CASE("a rank without a batch gathers, and sends no gradients", "[forecast]") {
  StepParts parts = four_buckets();
  parts.blocks = {{0}, {1}, {2}, {3}, {}};
  const StepForecast f =
      forecast_step(parts, {.ranks = 2, .batches = 3, .shard = optim::Shard::parameters}, kFast);
  CHECK_THAT(f.sent, Catch::Matchers::WithinRel((2 * 6 + 1.5 * 4) * kBucketBytes / 2, 1e-12));
}

TEST_CASE("local steps share what a meeting takes", "[forecast]") {
  // A quarter of a second for the half of a bucket that goes to the other rank.
  const Network network{.bytes_per_second = kBucketBytes / 2 / 0.25, .latency = 0};
  const StepForecast f =
      forecast_step(four_buckets(), {.ranks = 2, .batches = 4, .local_steps = 10}, network);
  CHECK_THAT(f.computing, Catch::Matchers::WithinRel(2 * 3 + 0.4, 1e-12));
  CHECK_THAT(f.sending, Catch::Matchers::WithinRel(8 * 0.25 / 10, 1e-9));
  CHECK(f.hidden() == 0);
  CHECK(f.step > f.computing + f.sending);
  CHECK(f.step < f.computing + f.sending + f.moving + 0.01);
  const StepForecast narrow = forecast_step(
      four_buckets(), {.ranks = 2, .batches = 4, .sent = optim::CommDType::bf16, .local_steps = 10},
      network);
  CHECK_THAT(narrow.sending, Catch::Matchers::WithinRel(f.sending / 2, 1e-9));
  const StepForecast alone =
      forecast_step(four_buckets(), {.ranks = 1, .batches = 4, .local_steps = 10}, network);
  CHECK_THAT(alone.step, Catch::Matchers::WithinRel(4 * 3 + 0.4, 1e-12));
}

TEST_CASE("bytes are those that each rank sends to others", "[forecast]") {
  using enum optim::CommDType;
  constexpr std::int64_t n = 8 * optim::kSquareChunk;  // elements, which two or four ranks halve
  constexpr auto elements = static_cast<double>(n);
  const StepParts parts{.forward = 1, .backward = 2, .sizes = {n}, .completed = {2}};
  const auto forecast = [&](const Group& group) { return forecast_step(parts, group, kFast); };
  // Gradients go there and weights come back, but for the own half of both.
  CHECK(forecast({.ranks = 2, .batches = 2}).sent == 4 * elements);
  CHECK(forecast({.ranks = 4, .batches = 4}).sent == 0.75 * 8 * elements);
  CHECK(forecast({.ranks = 2, .batches = 2, .sent = bf16}).sent == 3 * elements);
  // Gradients are sent by each batch, of which a rank has one and a half.
  CHECK(forecast({.ranks = 2, .batches = 3}).sent == 1.5 * 2 * elements + 2 * elements);
  CHECK(forecast({.ranks = 1, .batches = 3}).sent == 0);
  const auto meeting = [&](optim::CommDType sent) {
    const StepForecast f = forecast({.ranks = 2, .batches = 2, .sent = sent, .local_steps = 10});
    CHECK(f.sent == f.sent_at_meeting / 10);
    return f.sent_at_meeting;
  };
  CHECK(meeting(f32) == 4 * elements);
  CHECK(meeting(bf16) == 2 * elements);
  CHECK(meeting(int8) == elements + 4 * elements / 128);  // with the scales
  CHECK(forecast({.ranks = 2, .batches = 2}).sent_at_meeting == 0);
}

TEST_CASE("of many threads, the one that moves bytes decides on a fast line", "[forecast]") {
  StepParts many = four_buckets();
  many.threads = 32;
  const Group group{.ranks = 2, .batches = 2};
  const StepForecast one = forecast_step(four_buckets(), group, kFast);
  const StepForecast f = forecast_step(many, group, kFast);
  CHECK(one.sending < 1e-6);
  CHECK(f.sending > 0.05);
  CHECK(f.moving < one.moving / 30);
  // It does not on a slow one.
  const Network slow{.bytes_per_second = kBucketBytes / 2 / 0.25, .latency = 0};
  CHECK_THAT(forecast_step(many, group, slow).sending, Catch::Matchers::WithinRel(8 * 0.25, 1e-9));
}

TEST_CASE("a step tells what nothing hides, and what it would take if nothing did", "[forecast]") {
  const Network far{.bytes_per_second = kBucketBytes / 2 / 0.25, .latency = 0.01};
  const StepForecast f = forecast_step(four_buckets(), {.ranks = 2, .batches = 2}, far);
  CHECK(f.telling > 4 * far.latency);  // two texts, and their lengths before them
  CHECK(f.telling < 4 * far.latency + 0.001);
  CHECK(f.one_after_the_other() == f.computing + f.moving + f.sending + f.telling);
  CHECK(f.step < f.one_after_the_other());
  const StepForecast local =
      forecast_step(four_buckets(), {.ranks = 2, .batches = 2, .local_steps = 10}, far);
  CHECK_THAT(local.step, Catch::Matchers::WithinRel(local.one_after_the_other(), 1e-12));
  // Small messages go from each rank to each other one.
  const StepForecast thousand = forecast_step(
      four_buckets(), {.ranks = 1000, .batches = 1000, .local_steps = 1'000'000}, kFast);
  CHECK(thousand.telling > 0.001);
}

TEST_CASE("rates and times are read with their units", "[forecast]") {
  CHECK(parse_bandwidth("10Gbit") == 1.25e9);
  CHECK(parse_bandwidth("250Mbit") == 31.25e6);
  CHECK_THAT(parse_latency("50us"), Catch::Matchers::WithinRel(50e-6, 1e-12));
  CHECK(parse_latency("2ms") == 0.002);
  for (const char* wrong :
       {"", "10", "10GB", "Gbit", "-1Gbit", "0Gbit", "infGbit", "nanGbit", "1Gbit "}) {
    INFO(wrong);
    CHECK_THROWS_WITH(parse_bandwidth(wrong), ContainsSubstring("such as 10Gbit"));
  }
  CHECK_THROWS_WITH(parse_latency("50"), ContainsSubstring("such as 50us"));
}

TEST_CASE("--plan forecasts a step of several ranks, and only --plan takes --ranks", "[forecast]") {
  const Args small = {"--preset", "char-cpu", "--n-layer", "1", "--n-embd", "16", "--n-head", "2"};
  const Result r = train(small + Args{"--plan", "--ranks", "4", "--bandwidth", "1Gbit"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("forecast:  4 ranks, 1Gbit and 50us between them") &&
                        ContainsSubstring("times one process"));
  CHECK_THAT(train(small + Args{"--ranks", "4"}).err,
             ContainsSubstring("--ranks is for --plan: `mpirun -n 4"));
  const Result wrong = train(small + Args{"--plan", "--bandwidth", "10GB"});
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, ContainsSubstring("--bandwidth: '10GB' is not a number above 0"));
}
