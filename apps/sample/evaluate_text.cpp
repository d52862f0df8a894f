#include "tapegrad/apps/sample/evaluate_text.h"

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"

namespace tapegrad::sampling {

std::string Evaluated::line() const {
  const std::string seen =
      loss.share == 1 ? "whole text" : fmt::format("{:.3g} % of the text", 100 * loss.share);
  return fmt::format("loss {} ({}), perplexity {:.2f}, {:.2f} bits per byte; {} tokens, {} tok/s",
                     loss_text(loss.loss), seen, loss.perplexity, loss.bits_per_byte,
                     grouped(loss.tokens),
                     grouped(static_cast<std::int64_t>(static_cast<double>(loss.tokens) /
                                                       std::max(seconds, 1e-9))));
}

namespace {

template <class LossOf>
std::optional<Evaluated> timed(run::WindowOptions options, const LossOf& loss_of) {
  catch_interrupts();
  Terminal terminal;
  options.on_progress = [&](double share, double left) {
    if (terminal.wants_progress()) terminal.working("evaluating: " + progress_text(share, left));
  };
  const Stopwatch watch;
  const std::optional<run::TextLoss> loss = loss_of(options);
  if (!loss) return std::nullopt;
  return Evaluated{*loss, watch.seconds()};
}

}  // namespace

std::optional<Evaluated> evaluate_text(const run::TextModel& model, const data::TokenSource& tokens,
                                       run::WindowOptions options) {
  return timed(std::move(options), [&](const run::WindowOptions& windows) {
    return run::loss_of_tokens(model.gpt, model.tokenizer, tokens, windows);
  });
}

std::optional<Evaluated> evaluate_chat(const run::TextModel& model, const run::ChatData& chat,
                                       run::WindowOptions options) {
  return timed(std::move(options), [&](const run::WindowOptions& windows) {
    return run::loss_of_conversations(model.gpt, model.tokenizer, chat.val, chat.loss, windows);
  });
}

}  // namespace tapegrad::sampling
