#include "tapegrad/nn/summary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace tapegrad::nn {
namespace {

using Rows = std::vector<SummaryRow>;

std::int64_t parameters_of(const Rows& rows, std::string_view prefix = "") {
  std::int64_t n = 0;
  for (const SummaryRow& row : rows) n += row.name.rfind(prefix, 0) == 0 ? row.parameters() : 0;
  return n;
}

double flops_of(const Rows& rows) {
  double n = 0;
  for (const SummaryRow& row : rows) n += row.flops;
  return n;
}

SummaryRow linear_row(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
  SummaryRow row{name, {{out, in}}, 2.0 * static_cast<double>(in) * static_cast<double>(out)};
  if (bias) row.weights.push_back({out});
  return row;
}

SummaryRow norm_row(const std::string& name, const GPTConfig& c) {
  SummaryRow row{name, {{c.n_embd}}};
  if (c.bias) row.weights.push_back({c.n_embd});
  return row;
}

Rows block_rows(const GPTConfig& c) {
  const std::int64_t C = c.n_embd;
  Rows rows{norm_row("h.0.ln_1", c)};
  if (c.separate_qkv) {
    for (const char* name : {"h.0.attn.W_query", "h.0.attn.W_key", "h.0.attn.W_value"}) {
      rows.push_back(linear_row(name, C, C, c.qkv_bias));
    }
  } else {
    rows.push_back(linear_row("h.0.attn.c_attn", C, 3 * C, c.qkv_bias));
  }
  // Scores and weighted values: 2·C each for every key that is seen.
  const double keys = static_cast<double>(c.block_size + 1) / 2;
  rows.push_back({"h.0.attn",
                  {},
                  4.0 * static_cast<double>(C) * keys,
                  fmt::format("{} heads of {}{}", c.n_head, C / c.n_head, c.rope ? ", rope" : "")});
  rows.push_back(linear_row("h.0.attn.c_proj", C, C, c.bias));
  rows.push_back(norm_row("h.0.ln_2", c));
  rows.push_back(linear_row("h.0.mlp.c_fc", C, c.inner(), c.bias));
  rows.push_back(linear_row("h.0.mlp.c_proj", c.inner(), C, c.bias));
  return rows;
}

using Line = std::array<std::string, 5>;

Line line_of(const SummaryRow& row) {
  const std::int64_t n = row.parameters();
  return {row.name,
          row.weights.empty() ? row.note : fmt::format("{}", fmt::join(row.weights, ", ")),
          grouped(n), grouped(4 * n), fmt::format("{:.0f}", row.flops)};
}

Line total_line(const std::string& name, const std::string& note, std::int64_t parameters,
                double flops) {
  return {name, note, grouped(parameters), grouped(4 * parameters), fmt::format("{:.0f}", flops)};
}

// Text in the first two columns, numbers in the others.
std::string aligned(const std::vector<Line>& lines) {
  std::array<std::size_t, 5> width{};
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    text += fmt::format("{:<{}}  {:<{}}  {:>{}}  {:>{}}  {:>{}}\n", line[0], width[0], line[1],
                        width[1], line[2], width[2], line[3], width[3], line[4], width[4]);
  }
  return text;
}

}  // namespace

std::int64_t SummaryRow::parameters() const {
  std::int64_t n = 0;
  for (const Shape& shape : weights) n += shape.numel();
  return n;
}

Summary summary(const GPTConfig& c) {
  c.validate();
  Summary s;
  s.config = c;
  s.embeddings.push_back({"wte", {{c.vocab_size, c.n_embd}}});
  if (!c.rope) s.embeddings.push_back({"wpe", {{c.block_size, c.n_embd}}});
  s.blocks = c.placeholder ? 0 : c.n_layer;
  if (s.blocks > 0) {
    s.block = block_rows(c);
    s.head.push_back(norm_row("ln_f", c));
  }
  SummaryRow head = linear_row("lm_head", c.n_embd, c.vocab_size, false);
  if (c.tied) head.weights.clear();
  head.note = "wte's";
  s.head.push_back(head);
  return s;
}

std::int64_t Summary::parameters() const {
  return parameters_of(embeddings) + blocks * parameters_of(block) + parameters_of(head);
}

std::int64_t Summary::parameters_if_tied() const {
  return parameters() - parameters_of(head, "lm_head");
}

std::int64_t Summary::attention_parameters() const { return parameters_of(block, "h.0.attn"); }
std::int64_t Summary::feed_forward_parameters() const { return parameters_of(block, "h.0.mlp"); }

double Summary::flops() const {
  return flops_of(embeddings) + static_cast<double>(blocks) * flops_of(block) + flops_of(head);
}

std::string Summary::str() const {
  std::vector<Line> lines{{"layer", "weights", "parameters", "bytes", "FLOPs per token"}};
  for (const SummaryRow& row : embeddings) lines.push_back(line_of(row));
  for (const SummaryRow& row : block) lines.push_back(line_of(row));
  if (blocks > 0) lines.push_back(total_line("h.0", "", parameters_of(block), flops_of(block)));
  if (blocks > 1) {
    lines.push_back(total_line(blocks == 2 ? "h.1" : fmt::format("h.1 to h.{}", blocks - 1),
                               "as h.0", (blocks - 1) * parameters_of(block),
                               static_cast<double>(blocks - 1) * flops_of(block)));
  }
  for (const SummaryRow& row : head) lines.push_back(line_of(row));
  lines.push_back(total_line("all", "", parameters(), flops()));
  std::string text = aligned(lines);
  text += fmt::format("\n{} parameters, {:.2f} MB in f32", grouped(parameters()),
                      static_cast<double>(4 * parameters()) / (1 << 20));
  if (!config.tied) {
    text += fmt::format("; {} if the head shared wte's", grouped(parameters_if_tied()));
  }
  if (blocks > 0) {
    text += fmt::format("\nin each block {} of the attention, {} of the feed-forward",
                        grouped(attention_parameters()), grouped(feed_forward_parameters()));
  }
  return text + fmt::format("\n{:.3g} GFLOPs per token of a forward pass over {} tokens\n",
                            flops() / 1e9, grouped(config.block_size));
}

std::string grouped(std::int64_t n) {
  std::string digits = fmt::format("{}", n);
  for (auto i = static_cast<std::int64_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

}  // namespace tapegrad::nn
