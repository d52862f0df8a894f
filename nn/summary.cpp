#include "tapegrad/nn/summary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/autograd/module_names.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/decoder_names.h"
#include "tapegrad/nn/measure.h"

namespace tapegrad::nn {
namespace {

using Rows = std::vector<SummaryRow>;

std::int64_t parameters_of(const Rows& rows, std::string_view prefix = "") {
  std::int64_t n = 0;
  for (const SummaryRow& row : rows) n += row.name.rfind(prefix, 0) == 0 ? row.parameters() : 0;
  return n;
}

double active_of(const Rows& rows) {
  double n = 0;
  for (const SummaryRow& row : rows) n += row.active * static_cast<double>(row.parameters());
  return n;
}

double flops_of(const Rows& rows) {
  double n = 0;
  for (const SummaryRow& row : rows) n += row.flops;
  return n;
}

// A row for each module that has parameters, in the order of the model.
Rows rows_of(const NamedTensors& parameters) {
  Rows rows;
  for (const auto& [name, t] : parameters) {
    const std::string module = module_of(name);
    if (rows.empty() || rows.back().name != module) rows.push_back({module, {}});
    rows.back().weights.push_back(t.shape());
  }
  return rows;
}

bool begins_with(const std::string& name, std::string_view prefix) {
  return name.rfind(prefix, 0) == 0;
}

// A multiplication and an addition for each weight of a matrix, or of those that a token meets.
double linear_flops(const SummaryRow& row) {
  double n = 0;
  const int rank = std::max(2, row.weights.front().rank());  // 3 of experts, whose biases have 2
  for (const Shape& shape : row.weights) {
    if (shape.rank() == rank) n += 2 * row.active * static_cast<double>(shape.numel());
  }
  return n;
}

// The share of experts that a token goes to, for rows of them.
double active_share(const DecoderConfig& c, const SummaryRow& row) {
  const std::string stack = fmt::format(".{}.", decoder_names(c).in_experts.experts);
  const bool is_stack = c.moe.exist() && row.name.find(stack) != std::string::npos;
  return is_stack ? static_cast<double>(c.moe.top_k) / static_cast<double>(c.moe.experts) : 1;
}

bool are_alike(const DecoderConfig& c, int block, int other) {
  return c.has_experts(block) == c.has_experts(other) && c.mixer(block) == c.mixer(other) &&
         c.has_feed_forward(block) == c.has_feed_forward(other);
}

// The kinds of blocks, without their rows.
std::vector<SummaryBlocks> kinds_of(const DecoderConfig& c) {
  std::vector<SummaryBlocks> kinds;
  for (int i = 0; i < c.n_layer; ++i) {
    const auto own = std::find_if(kinds.begin(), kinds.end(), [&](const SummaryBlocks& kind) {
      return are_alike(c, i, kind.first);
    });
    if (own == kinds.end()) {
      kinds.push_back({i, 1, {}});
    } else {
      ++own->count;
    }
  }
  return kinds;
}

// The names of a model's parts.
struct Names {
  std::string blocks, projection_end, delta_end, mamba_end, mlp, embedding, positions, ngrams, head;
  std::vector<std::string> mixers;
  explicit Names(const DecoderConfig& c) {
    const DecoderNames names = decoder_names(c);
    blocks = std::string(names.blocks) + ".";
    for (const char* mixer : {names.attention, names.conv, names.delta, names.mamba}) {
      mixers.push_back(fmt::format("{}0.{}", blocks, mixer));
    }
    projection_end = fmt::format(".{}.{}", names.attention, names.in_attention.out);
    delta_end = fmt::format(".{}.{}", names.delta, names.in_delta.out);
    mamba_end = fmt::format(".{}.{}", names.mamba, names.in_mamba.out);
    mlp = fmt::format("{}0.{}", blocks, names.mlp);
    embedding = names.tokens, positions = names.positions, head = names.head;
    ngrams = std::string(names.ngrams) + ".";
  }
  std::string block(std::int64_t i) const { return fmt::format("{}{}", blocks, i); }
};

// How many keys a query of a block sees, in the mean over positions.
double keys_of_block(const DecoderConfig& c, int block, std::int64_t T) {
  const std::int64_t window = c.scores_of(block).window;
  if (window == 0 || window >= T) return static_cast<double>(T + 1) / 2;
  const auto seen = static_cast<double>(window), all = static_cast<double>(T);
  return seen - seen * (seen - 1) / (2 * all);
}

// Attention itself has no parameters. Scores and weighted values take 2·H·D each for every key that
// is seen, in the mean over blocks with attention.
SummaryRow attention_row(const DecoderConfig& c, const std::string& name, std::int64_t tokens) {
  double keys = 0, blocks = 0;
  for (int i = 0; i < c.n_layer; ++i) {
    if (!c.has_attention(i)) continue;
    keys += keys_of_block(c, i, tokens), ++blocks;
  }
  keys /= blocks;
  const std::int64_t D = c.channels_per_head();
  std::string note = fmt::format("{} heads of {}", c.n_head, D);
  if (c.kv_heads() != c.n_head) note += fmt::format(", {} of keys and values", c.kv_heads());
  if (c.rotary()) note += ", rope";
  if (!c.rope_pattern.empty()) note += " of blocks " + c.rope_pattern;
  if (c.window > 0) note += fmt::format(", window {}", c.window);
  if (!c.window_pattern.empty()) note += " of blocks " + c.window_pattern;
  return {name, {}, 4.0 * static_cast<double>(c.n_head * D) * keys, note};
}

// The state itself has no parameters. Of each head, it forgets, is read twice, and is corrected.
SummaryRow delta_row(const DecoderConfig& c, const std::string& name) {
  const DeltaSizes s = c.delta_sizes();
  const double flops = 7.0 * static_cast<double>(s.heads * s.key_size * s.value_size);
  std::string note = fmt::format("{} heads, states of {} x {}", s.heads, s.key_size, s.value_size);
  if (s.key_heads != s.heads) note += fmt::format(", {} of queries and keys", s.key_heads);
  return {name, {}, flops, note};
}

// The same of a Mamba-2, whose state forgets, takes something up, and is read.
SummaryRow mamba_row(const DecoderConfig& c, const std::string& name) {
  const MambaSizes s = c.mamba_sizes();
  const double flops = 5.0 * static_cast<double>(s.channels() * s.state_size);
  std::string note = fmt::format("{} heads, states of {} x {}", s.heads, s.state_size, s.head_size);
  if (s.groups != 1) note += fmt::format(", {} groups", s.groups);
  return {name, {}, flops, note};
}

// The name of block 0's mixer, in words.
const char* mixer_name(const DecoderConfig& c) {
  if (c.has_conv(0)) return "convolution";
  if (c.has_delta(0)) return "gated delta net";
  if (!c.has_mamba(0)) return "attention";
  return c.has_attention(0) ? "attention and the Mamba-2" : "Mamba-2";
}

using Line = std::vector<std::string>;

Line line_of(const SummaryRow& row) {
  const std::int64_t n = row.parameters();
  return {row.name,
          row.weights.empty() ? row.note : fmt::format("{}", fmt::join(row.weights, ", ")),
          grouped(n), grouped(4 * n), grouped(std::llround(row.flops))};
}

Line total_line(const std::string& name, const std::string& note, std::int64_t parameters,
                double flops) {
  return {name, note, grouped(parameters), grouped(4 * parameters), grouped(std::llround(flops))};
}

// The lines of a block, its total, and the total of those that are like it.
void add_blocks(const Rows& block, const std::string& name, std::int64_t count,
                const std::string& others, std::vector<Line>& lines) {
  for (const SummaryRow& row : block) lines.push_back(line_of(row));
  lines.push_back(total_line(name, "", parameters_of(block), flops_of(block)));
  if (count == 1) return;
  lines.push_back(total_line(others, "as " + name, (count - 1) * parameters_of(block),
                             static_cast<double>(count - 1) * flops_of(block)));
}

}  // namespace

std::int64_t SummaryRow::parameters() const {
  std::int64_t n = 0;
  for (const Shape& shape : weights) n += shape.numel();
  return n;
}

Summary summary(const DecoderConfig& c, std::optional<std::int64_t> tokens) {
  Summary s;
  s.config = c;
  s.kinds = kinds_of(c);
  s.tokens = tokens.value_or(c.block_size);
  const Names names(c);
  const auto kind_with = [&](const std::string& row) -> SummaryBlocks* {
    for (SummaryBlocks& kind : s.kinds) {
      if (begins_with(row, names.block(kind.first) + ".")) return &kind;
    }
    return nullptr;
  };
  for (SummaryRow& row : rows_of(shapes_of<Decoder>(c).parameters())) {
    const bool in_block = begins_with(row.name, names.blocks);
    SummaryBlocks* const kind = in_block ? kind_with(row.name) : nullptr;
    if (in_block && kind == nullptr) continue;
    row.active = active_share(c, row);
    const bool embeds = row.name == names.embedding || row.name == names.positions ||
                        begins_with(row.name, names.ngrams);
    if (!embeds) row.flops = linear_flops(row);
    Rows& rows = embeds ? s.embeddings : in_block ? kind->rows : s.head;
    if (in_block && row.name.ends_with(names.projection_end)) {
      rows.push_back(attention_row(c, row.name.substr(0, row.name.rfind('.')), s.tokens));
    }
    if (in_block && row.name.ends_with(names.delta_end)) {
      rows.push_back(delta_row(c, row.name.substr(0, row.name.rfind('.'))));
    }
    if (in_block && row.name.ends_with(names.mamba_end)) {
      rows.push_back(mamba_row(c, row.name.substr(0, row.name.rfind('.'))));
    }
    rows.push_back(std::move(row));
  }
  if (c.tied) {
    SummaryRow head = s.embeddings.front();
    s.head.push_back({names.head, {}, linear_flops(head), names.embedding + "'s"});
  }
  return s;
}

std::int64_t Summary::parameters() const {
  std::int64_t n = parameters_of(embeddings) + parameters_of(head);
  for (const SummaryBlocks& kind : kinds) n += kind.count * parameters_of(kind.rows);
  return n;
}

std::int64_t Summary::active_parameters() const {
  double n = active_of(embeddings) + active_of(head);
  for (const SummaryBlocks& kind : kinds)
    n += static_cast<double>(kind.count) * active_of(kind.rows);
  return std::llround(n);
}

std::int64_t Summary::parameters_if_tied() const {
  return parameters() - parameters_of(head, Names(config).head);
}

std::int64_t Summary::mixer_parameters() const {
  std::int64_t n = 0;  // of those that there are
  for (const std::string& mixer : Names(config).mixers) {
    n += parameters_of(kinds.front().rows, mixer);
  }
  return n;
}
std::int64_t Summary::feed_forward_parameters() const {
  return parameters_of(kinds.front().rows, Names(config).mlp);
}

double Summary::flops() const { return flops_of(embeddings) + block_flops() + flops_of(head); }

double Summary::block_flops() const {
  double n = 0;
  for (const SummaryBlocks& kind : kinds)
    n += static_cast<double>(kind.count) * flops_of(kind.rows);
  return n;
}

std::string Summary::str() const {
  std::vector<Line> lines{{"layer", "weights", "parameters", "bytes", "FLOPs per token"}};
  for (const SummaryRow& row : embeddings) lines.push_back(line_of(row));
  const Names names(config);
  const std::int64_t blocks = config.n_layer;
  const std::string others = blocks == 2
                                 ? names.block(1)
                                 : fmt::format("{} to {}", names.block(1), names.block(blocks - 1));
  for (const SummaryBlocks& kind : kinds) {
    add_blocks(kind.rows, names.block(kind.first), kind.count,
               kinds.size() > 1 ? fmt::format("{} more", kind.count - 1) : others, lines);
  }
  for (const SummaryRow& row : head) lines.push_back(line_of(row));
  lines.push_back(total_line("all", "", parameters(), flops()));
  std::string text = table_text("llrrr", lines);
  text += fmt::format("\n{} parameters, {:.2f} MB in f32", grouped(parameters()),
                      static_cast<double>(4 * parameters()) / (1 << 20));
  if (!config.tied) {
    text +=
        fmt::format("; {} if the head shared {}'s", grouped(parameters_if_tied()), names.embedding);
  }
  if (config.moe.exist()) {
    text += fmt::format("\n{} of them active: a token goes to {} of {} experts",
                        grouped(active_parameters()), config.moe.top_k, config.moe.experts);
  }
  const std::string where = kinds.size() > 1 ? names.block(0) : "each block";
  std::vector<std::string> parts;
  if (config.has_mixer(0)) {
    parts.push_back(fmt::format("{} of the {}", grouped(mixer_parameters()), mixer_name(config)));
  }
  if (config.has_feed_forward(0)) {
    parts.push_back(fmt::format("{} of the feed-forward", grouped(feed_forward_parameters())));
  }
  text += fmt::format("\nin {} {}", where, fmt::join(parts, ", "));
  return text + fmt::format("\n{:.3g} GFLOPs per token of a forward pass over {} tokens\n",
                            flops() / 1e9, grouped(tokens));
}

}  // namespace tapegrad::nn
