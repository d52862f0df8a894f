#include "tapegrad/apps/evaluate/text_program.h"

#include <cmath>

#include "tapegrad/apps/sample/evaluate_text.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad::evaluation {
namespace {

Json json_of(const EvaluateOptions& o, const run::WindowOptions& windows, const std::string& text,
             const sampling::Evaluated& e, bool isolates, std::uint64_t weight_bytes,
             const References& references) {
  Json json = {{"model", o.model},
               {"checkpoint", o.checkpoint},
               {"weights", o.weights},
               {"cache", name_of_enum(o.cache)},
               {"weight_bytes", weight_bytes},
               {"text", text},
               {"block_size", windows.block_size},
               {"stride", tapegrad::json_of(windows.stride)},
               {"isolate_documents", isolates},
               {"tokens", e.loss.tokens},
               {"share", e.loss.share},
               {"loss", e.loss.loss},
               {"perplexity", e.loss.perplexity},
               {"bits_per_byte", e.loss.bits_per_byte},
               {"seconds", e.seconds}};
  add_comparisons(json, o.references(), references, e.loss);
  return json;
}

std::optional<sampling::Evaluated> evaluate_answers(const EvaluateOptions& o,
                                                    const run::TextModel& model,
                                                    const run::Text& text,
                                                    const run::WindowOptions& windows) {
  const auto chat_template = run::chat_template_or_chatml(model.settings, model.tokenizer);
  check(chat_template.has_value(),
        "{}: it has no chat template, and its tokenizer no <|im_start|> and <|im_end|>, so that "
        "nothing says how it writes a conversation",
        o.model);
  const run::ChatData chat =
      run::chat_data_of(text, model.tokenizer,
                        {chat_template->with_special_in_messages(o.tasks.special_in_messages),
                         o.loss, windows.block_size});
  return sampling::evaluate_chat(model, chat, windows);
}

run::WindowOptions windows_of(const EvaluateOptions& o, const run::OpenedModel& model) {
  const std::int64_t longest = model.config.block_size;
  run::WindowOptions windows{
      .batch_size = o.batch_size,
      .block_size = o.block_size.value_or(model.training_length.value_or(longest)),
      .stride = o.stride,
      .limit = *run::evaluation_limit(o.limit, 1),
      .cache = o.cache};
  check(windows.block_size <= longest,
        "--block-size {} is more than the {} tokens that the model can see", windows.block_size,
        longest);
  check(!o.stride || *o.stride <= windows.block_size,
        "--stride {} is above the block size of {}, so that tokens would be left out", *o.stride,
        windows.block_size);
  return windows;
}

}  // namespace

std::optional<Evaluation> run_text(const EvaluateOptions& o, run::OpenedModel opened,
                                   std::uint64_t weight_bytes) {
  const bool isolates = o.isolate_documents.value_or(opened.isolates_documents);
  run::WindowOptions windows = windows_of(o, opened);
  const References references = references_of(o.references(), opened, windows.block_size);
  const run::TextModel model = run::load_quantized(std::move(opened), o.weights);
  for (const Reference& other : references) {
    windows.compared.push_back(other.model ? &other.model->gpt : &model.gpt);
  }
  sampling::note_other_types(run::quantized_type(o.weights), model.params);
  const bool is_chat = !o.chat.empty();
  const run::Text text = run::read_text({.paths = is_chat ? o.chat : o.paths,
                                         .field = o.field,
                                         .encoding = o.encoding,
                                         .is_data = !o.data.empty(),
                                         .is_chat = is_chat,
                                         .strict = o.strict_data,
                                         .notes = o.notes});
  check(o.cache == CacheType::f32 || (!isolates && !text.chat),
        "--cache {}: a window is read as one text, and {}", name_of_enum(o.cache),
        text.chat ? "conversations are kept apart in it"
                  : "documents are kept apart in it without --no-isolate-documents");
  const auto evaluated_text = [&] {
    data::TokenSource tokens = run::tokens_of(text, model.tokenizer, o.separator);
    if (isolates) tokens = run::isolated(tokens, model.tokenizer);
    return sampling::evaluate_text(model, tokens, windows);
  };
  const auto result = text.chat ? evaluate_answers(o, model, text, windows) : evaluated_text();
  if (!result) return std::nullopt;
  check(!std::isnan(result->loss.loss), "{}: the loss is NaN: {}", o.model,
        "the model's weights are broken, or so large that they overflow");
  const std::string& name = text.tokens ? text.tokens->val_name : text.identity.name;
  return Evaluation{
      json_of(o, windows, name, *result, isolates, weight_bytes, references),
      fmt::format("{}: {}\n{}", name, result->line(), comparison_lines(references, result->loss))};
}

}  // namespace tapegrad::evaluation
