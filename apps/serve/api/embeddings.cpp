#include "tapegrad/apps/serve/api/embeddings.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/text/internal/base64.h"
#include "tapegrad/nn/lora/row_adapters.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostInputs = 2048;

// The states (1, T, C) of a text → one vector of length 1.
std::vector<float> pooled(const Tensor& states, bool mean) {
  const auto values = states.values<float>();
  const auto channels = static_cast<std::size_t>(states.dim(2));
  const std::size_t rows = values.size() / channels;
  std::vector<double> sums(channels, 0);
  for (std::size_t t = mean ? 0 : rows - 1; t < rows; ++t) {
    for (std::size_t c = 0; c < channels; ++c) {
      sums[c] += static_cast<double>(values[t * channels + c]);
    }
  }
  double squares = 0;
  for (const double sum : sums) squares += sum * sum;
  const double length = std::sqrt(squares);
  std::vector<float> vector;
  for (const double sum : sums) vector.push_back(static_cast<float>(length > 0 ? sum / length : 0));
  return vector;
}

std::string base64(const std::vector<float>& numbers) {
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return base64_of(bytes);
}

class EmbeddingJob : public Job {
 public:
  EmbeddingJob(const ServedModel& model, const NamedModel& named, std::vector<nn::Tokens> inputs,
               bool mean, bool as_base64, std::unique_ptr<Reply> reply)
      : model_(model),
        named_(named),
        inputs_(std::move(inputs)),
        mean_(mean),
        base64_(as_base64),
        reply_(std::move(reply)) {
    pieces = inputs_.size();
    for (const nn::Tokens& input : inputs_) usage_.prompt_tokens += std::ssize(input);
  }

  void work(std::size_t piece) override {
    const nn::Tokens& input = inputs_[piece];
    const TapePause pause;
    const nn::RowAdapters chosen({named_.adapter});
    const Tensor states = model_.model.gpt.hidden(Tensor::from(input, {1, std::ssize(input)}));
    const std::vector<float> vector = pooled(states.to(DType::f32), mean_);
    data_.push_back({{"object", "embedding"},
                     {"index", piece},
                     {"embedding", base64_ ? Json(base64(vector)) : Json(vector)}});
  }
  void finish() override {
    const Json json = {
        {"object", "list"},
        {"data", std::move(data_)},
        {"model", named_.name},
        {"pooling", mean_ ? "mean" : "last"},
        {"normalized", true},
        {"usage",
         {{"prompt_tokens", usage_.prompt_tokens}, {"total_tokens", usage_.prompt_tokens}}}};
    reply_->send({.body = json_text(json)}, usage_);
  }
  void fail(const Refusal& why) override { reply_->send(why.response(), usage_); }

 private:
  const ServedModel& model_;
  const NamedModel& named_;
  const std::vector<nn::Tokens> inputs_;
  const bool mean_, base64_;
  const std::unique_ptr<Reply> reply_;
  Json data_ = Json::array();
  Usage usage_;
};

nn::Tokens tokens_of_input(const ServedModel& model, Fields& fields, const Json& input) {
  nn::Tokens tokens;
  if (input == "") fields.refuse("input", "'input' must not be empty");
  if (input.is_string()) {
    tokens = encoded(fields, "input", model, input.get_ref<const std::string&>(),
                     [&](std::string_view text) { return model.model.tokens_of(text); });
  } else if (input.is_array()) {
    tokens = tokens_of_json(fields, "input", input, model);
  } else {
    fields.refuse_type("input", "a text, a list of tokens, or a list of either");
  }
  if (tokens.empty()) fields.refuse("input", "'input' must not be empty");
  new_tokens(model, std::ssize(tokens), std::nullopt, 0, "input");
  return tokens;
}

}  // namespace

std::unique_ptr<Job> embeddings(const Json& body, const Asked& asked) {
  const ServedModel& model = asked.model;
  Fields fields(body, kInEmbedding, *asked.ignored);
  const NamedModel& named = read_model_name(fields, model);
  std::string format = "float", pooling = "mean";
  fields.choice("encoding_format", format, {"float", "base64"});
  fields.choice("pooling", pooling, {"mean", "last"});
  fields.fixed("dimensions", Json::array({model.model.gpt.config.n_embd}),
               "vectors have the model's size");
  const Json* input = fields.find("input");
  if (input == nullptr) {
    fields.refuse_missing("input");
  }
  fields.end();
  std::vector<nn::Tokens> inputs;
  const bool is_list = input->is_array() && !input->empty() && !input->front().is_number();
  if (!is_list) {
    inputs.push_back(tokens_of_input(model, fields, *input));
  } else if (input->size() > kMostInputs) {
    fields.refuse("input", fmt::format("'input' has {} texts, and {} are the most", input->size(),
                                       kMostInputs));
  } else {
    for (const Json& element : *input) inputs.push_back(tokens_of_input(model, fields, element));
  }
  return std::make_unique<EmbeddingJob>(model, named, std::move(inputs), pooling == "mean",
                                        format == "base64", asked.reply());
}

}  // namespace tapegrad::serve
