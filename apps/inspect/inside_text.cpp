#include <algorithm>
#include <cmath>

#include "tapegrad/apps/inspect/token_text.h"
#include "tapegrad/apps/inspect/views.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"

namespace tapegrad::inspect {
namespace {

constexpr int kBar = 10;

std::string quoted(const Look& look, data::Token token) {
  return quoted_token(look.bytes_of(token));
}

std::string guesses(const Look& look, const Prediction& p) {
  std::string text;
  for (const Guess& guess : p.best) {
    text += fmt::format("{}{} {:.3f}", text.empty() ? "" : "  ", quoted(look, guess.token),
                        guess.probability);
  }
  return text;
}

std::string bar(double probability) {
  const int full = static_cast<int>(std::lround(kBar * std::clamp(probability, 0.0, 1.0)));
  std::string text;
  for (int i = 0; i < kBar; ++i) text += i < full ? "█" : "░";
  return text;
}

}  // namespace

std::string text_of(const Look& look) {
  const Inside& inside = look.inside;
  std::string text = look.step ? fmt::format("{} (step {}): ", look.model, *look.step)
                               : fmt::format("{}: ", look.model);
  text += counted(std::ssize(inside.tokens), "token");
  if (look.cut()) text += fmt::format(", the last of {}", grouped(look.text_tokens));
  if (inside.loss) {
    text += fmt::format(", loss {}, perplexity {:.2f}", loss_text(*inside.loss),
                        std::exp(*inside.loss));
  }
  text += fmt::format("\n\n{:<16}  {:<{}}  {:>11}  {:>6}  {}\n", "token", "", kBar, "probability",
                      "loss", "likeliest in its place");
  for (std::size_t t = 0; t < inside.tokens.size(); ++t) {
    text += fmt::format("{:<16}", quoted(look, inside.tokens[t]));
    if (t > 0) {
      const Prediction& p = inside.predictions[t - 1];
      text += fmt::format("  {}  {:>11.4f}  {:>6.2f}  {}", bar(*p.next), *p.next,
                          -std::log(std::max(*p.next, 1e-45)), guesses(look, p));
    }
    text += "\n";
  }
  return text + fmt::format("{:<16}  {:{}}  {}\n", "then", "", kBar + 21,
                            guesses(look, inside.predictions.back()));
}

}  // namespace tapegrad::inspect
