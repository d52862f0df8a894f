#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tapegrad/apps/inspect/token_text.h"
#include "tapegrad/apps/inspect/views.h"

namespace tapegrad::inspect {
namespace {

constexpr std::int64_t kMostTokens = 256;

// The longest that each part can be, in bytes. Quotes and backslashes of a text take two.
constexpr std::int64_t kText = 2 * kMostTokenText + 2, kNumber = 11, kId = 8;
constexpr std::int64_t kLensBytes = 40 + kText + 2 * kNumber;
constexpr std::int64_t kGuessBytes = 36 + kId + kText + kNumber;
constexpr std::int64_t kPositionBytes =
    30 + kBest * kGuessBytes + kNumber + (20 + kId + kText) + (1 + kNumber);
constexpr std::int64_t kOtherBytes = 20'000;  // with a path of 4,096 bytes, each escaped

// T·(T + 1)/2 weights of one head, two digits and a comma each. The n weights of a row sum to 1000,
// and n/2 more by rounding, so that a third digit, which takes 90 more than two do, is there at
// most (1000 - 9.5·n)/90 times: 580 times in all rows.
double head_bytes(double T) { return 3 * T * (T + 1) / 2 + 580 + 30; }

double json_bytes(const nn::DecoderConfig& c, std::int64_t tokens) {
  const auto T = static_cast<double>(tokens);
  double heads = 0;  // of all blocks with attention
  for (int block = 0; block < c.n_layer; ++block) heads += c.has_attention(block) ? c.n_head : 0;
  return heads * head_bytes(T) + (c.n_layer + 1.0) * (T * kLensBytes + 3) + T * kPositionBytes +
         kOtherBytes;
}

// With five digits: more are noise, and the file is smaller.
Json number(double value) {
  return std::isfinite(value) ? Json(std::strtod(fmt::format("{:.5g}", value).c_str(), nullptr))
                              : Json(nullptr);
}
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

std::string text_of_token(const Look& look, data::Token token) {
  return token_text(look.bytes_of(token));
}

Json prediction_json(const Look& look, const Prediction& p) {
  Json best = Json::array();
  for (const Guess& guess : p.best) {
    best.push_back({{"id", guess.token},
                    {"text", text_of_token(look, guess.token)},
                    {"probability", number(guess.probability)}});
  }
  return {{"next", number(p.next)}, {"best", std::move(best)}};
}

Json lens_json(const Look& look, const std::vector<LensCell>& row) {
  Json cells = Json::array();
  for (const LensCell& cell : row) {
    cells.push_back({{"text", text_of_token(look, cell.best.token)},
                     {"probability", number(cell.best.probability)},
                     {"next", number(cell.next)}});
  }
  return cells;
}

}  // namespace

std::int64_t most_tokens(const nn::DecoderConfig& config) {
  std::int64_t tokens = std::min(kMostTokens, config.block_size);
  while (tokens > 1 && json_bytes(config, tokens) > kMostJson) --tokens;
  check(json_bytes(config, tokens) <= kMostJson,
        "the model has {} blocks of {} heads, which is too many to show", config.n_layer,
        config.n_head);
  return tokens;
}

Json json_of(const Look& look) {
  const Inside& inside = look.inside;
  Json json = {{"model", look.model}, {"step", tapegrad::json_of(look.step)}};
  for (const data::Token token : inside.tokens) {
    json["tokens"].push_back({{"id", token}, {"text", text_of_token(look, token)}});
  }
  json["text_tokens"] = look.text_tokens;
  if (look.cut()) json["cut"] = true;
  json["loss"] = number(inside.loss);
  for (const Prediction& p : inside.predictions) {
    json["predictions"].push_back(prediction_json(look, p));
  }
  json["attention"] = inside.attention;
  if (std::size(inside.attention) + 1 < inside.lens.size()) {
    json["attention_blocks"] = inside.attention_blocks;
  }
  for (const auto& row : inside.lens) json["lens"].push_back(lens_json(look, row));
  for (const double norm : inside.input_gradient) json["input_gradient"].push_back(number(norm));
  return json;
}

std::string json_text(const Look& look) { return tapegrad::json_text(json_of(look)); }

}  // namespace tapegrad::inspect
