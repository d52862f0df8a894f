#include "tapegrad/apps/bench/generate_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "tapegrad/base/parallel.h"
#include "tapegrad/base/stopwatch.h"

namespace tapegrad::bench {
namespace {

enum Kind : std::size_t {
  kQKV,
  kProjection,
  kFeedForward,
  kHead,
  kOtherProducts,
  kAttention,
  kCache,
  kNorms,
  kActivation,
  kEmbedding,
  kChoice,
  kRest,
};
constexpr std::array<std::string_view, kRest + 1> kNames = {"queries, keys, values",
                                                            "attention's projection",
                                                            "feed-forward",
                                                            "head",
                                                            "other products",
                                                            "attention",
                                                            "storing keys, values",
                                                            "norms",
                                                            "activation",
                                                            "embedding",
                                                            "choice of token",
                                                            "all else"};

Kind kind_of(std::string_view op) {
  const auto has = [&](std::string_view part) { return op.find(part) != op.npos; };
  if (has("linear")) return kOtherProducts;
  if (has("attention")) return kAttention;
  if (has("norm")) return kNorms;
  if (op == "kv_cache") return kCache;
  if (op == "embedding" || op == "gather_rows") return kEmbedding;
  for (const auto* name : {"gelu", "relu", "relu2", "silu", "swiglu", "clamped_swiglu"}) {
    if (op == name) return kActivation;
  }
  return kRest;
}

// How many threads were at work during a step: the caller's always is, but in loops where
// only others work.
class Work {
 public:
  explicit Work(const std::vector<std::vector<LoopLog::Part>>& threads) {
    if (threads.empty()) return;
    for (std::size_t i = 1; i < threads.size(); ++i) {
      others_.insert(others_.end(), threads[i].begin(), threads[i].end());
    }
    std::sort(others_.begin(), others_.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    const std::vector<LoopLog::Part>& own = threads.front();
    double known = 0;  // all waits before this time are noted
    std::size_t next = 0;
    const auto wait_until = [&](double end) {
      if (end > known) waits_.push_back({known, end});
    };
    for (const LoopLog::Part& other : others_) {
      known = std::max(known, other.begin);
      while (next < own.size() && own[next].end <= known) ++next;
      for (; next < own.size() && own[next].begin < other.end; ++next) {
        wait_until(own[next].begin);
        known = std::max(known, own[next].end);
        if (own[next].end > other.end) break;
      }
      wait_until(other.end);
      known = std::max(known, other.end);
    }
  }

  // Seconds of all threads between two times by the clock.
  double between(double begin, double end) const {
    const auto sum = [&](const std::vector<LoopLog::Part>& parts) {
      double seconds = 0;
      for (const LoopLog::Part& part : parts) {
        seconds += std::max(0.0, std::min(end, part.end) - std::max(begin, part.begin));
      }
      return seconds;
    };
    return end - begin + sum(others_) - sum(waits_);
  }

 private:
  std::vector<LoopLog::Part> others_, waits_;
};

}  // namespace

GenerateOps::GenerateOps(const nn::Decoder& model) {
  static_assert(std::tuple_size_v<decltype(rows_)> == kNames.size());
  for (std::size_t i = 0; i < kNames.size(); ++i) rows_[i].name = kNames[i];
  const auto note = [&](Kind kind, std::initializer_list<const nn::Linear*> layers) {
    for (const nn::Linear* layer : layers) {
      if (layer->weight.quantized) kinds_[layer->weight.quantized.get()] = kind;
    }
  };
  for (const nn::Block& block : model.h) {
    const nn::MultiHeadAttention& a = block.attn;
    note(kQKV, {&a.c_attn, &a.W_query, &a.W_key, &a.W_value});
    note(kProjection, {&a.c_proj});
    const nn::GatedDeltaNet& d = block.delta;
    note(kOtherProducts,
         {&block.conv.in_proj, &block.conv.out_proj, &d.in_proj_qkv, &d.in_proj_z, &d.in_proj_b,
          &d.in_proj_a, &d.out_proj, &block.mamba.in_proj, &block.mamba.out_proj});
    const nn::Experts& e = block.experts;
    for (const nn::FeedForward* dense : {&block.mlp, &e.shared}) {
      note(kFeedForward, {&dense->c_fc, &dense->c_gate, &dense->c_proj});
    }
    for (const nn::ExpertLinear* layer : {&e.c_fc, &e.c_gate, &e.c_proj}) {
      for (const Weight& weight : layer->weight.quantized) {
        kinds_[weight.quantized.get()] = kFeedForward;
      }
    }
  }
  note(kHead, {&model.lm_head});
}

double GenerateOps::step(nn::Generation& generation) {
  const Profile profile({.timeline = true});
  const double seconds = seconds_of([&] { generation.step(); });
  add(profile.timeline(), seconds);
  return seconds;
}

void GenerateOps::add(const Profile::Timeline& line, double seconds) {
  const Work work(line.threads);
  double clock = 0, threads = 0, passed = 0;
  const auto count = [&](std::size_t kind, double begin, double end) {
    Row& row = rows_[kind];
    ++row.calls;
    row.clock += end - begin;
    row.threads += work.between(begin, end);
    clock += end - begin;
    threads += work.between(begin, end);
    passed = end;
  };
  for (const Profile::Event& event : line.events) {
    const auto product = kinds_.find(event.matrix);
    count(product == kinds_.end() ? kind_of(event.name) : product->second, event.begin, event.end);
  }
  count(kChoice, passed, std::max(passed, seconds));  // after the last op
  rows_[kRest].clock += seconds - clock;
  rows_[kRest].threads += work.between(0, seconds) - threads;
  seconds_ += seconds;
  ++steps_;
}

double GenerateOps::threads_seconds(std::int64_t texts) const {
  return seconds_ * num_threads() / static_cast<double>(steps_ * texts);
}

std::vector<GenerateOps::Row> GenerateOps::rows(std::int64_t texts) const {
  const auto tokens = static_cast<double>(steps_ * texts);
  std::vector<Row> rows;
  double rest = threads_seconds(texts);
  for (Row row : rows_) {
    if (row.calls == 0 && row.name != kNames[kRest]) continue;
    row.calls /= steps_;
    row.clock /= tokens;
    row.threads /= tokens;
    rest -= row.threads;
    rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.clock > b.clock; });
  rows.push_back({.name = "waiting", .threads = std::max(0.0, rest)});
  return rows;
}

void GenerateOps::print(std::int64_t texts) const {
  const double all = threads_seconds(texts);
  fmt::print("\nof each token, µs by the clock and of all {} threads, of {} steps:\n\n",
             num_threads(), steps_);
  fmt::print("  {:<24} {:>6} {:>10} {:>10} {:>7}\n", "what", "calls", "clock", "threads", "share");
  for (const Row& row : rows(texts)) {
    fmt::print("  {:<24} {:>6} {:>10.1f} {:>10.1f} {:>5.1f} %\n", row.name, row.calls,
               1e6 * row.clock, 1e6 * row.threads, 100 * row.threads / all);
  }
}

Json GenerateOps::json(std::int64_t texts) const {
  const double all = threads_seconds(texts);
  Json list = Json::array();
  for (const Row& row : rows(texts)) {
    list.push_back({{"name", row.name},
                    {"calls", row.calls},
                    {"clock_us", 1e6 * row.clock},
                    {"threads_us", 1e6 * row.threads},
                    {"share", row.threads / all}});
  }
  return list;
}

}  // namespace tapegrad::bench
