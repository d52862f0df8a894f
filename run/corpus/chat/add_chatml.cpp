#include "tapegrad/run/corpus/chat/add_chatml.h"

#include <algorithm>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/nn/decoder_names.h"
#include "tapegrad/run/corpus/chat/chat_tokenizer.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad::run {
namespace {

// A matrix with more rows, each the mean of its own ones.
template <class T>
Tensor with_mean_rows(const Tensor& matrix, std::int64_t rows) {
  const std::int64_t own = matrix.dim(0), columns = matrix.dim(1);
  const T* from = matrix.data<T>();
  std::vector<double> mean(static_cast<std::size_t>(columns));
  for (std::int64_t r = 0; r < own; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      mean[static_cast<std::size_t>(c)] +=
          static_cast<double>(from[r * columns + c]) / static_cast<double>(own);
    }
  }
  std::vector<T> all(from, from + own * columns);
  for (std::int64_t r = own; r < rows; ++r) {
    for (const double value : mean) all.push_back(static_cast<T>(value));
  }
  return Tensor::from(all, {rows, columns});
}

// The tensors of a model for more tokens.
class MoreTokens : public TensorSource {
 public:
  MoreTokens(std::shared_ptr<const TensorSource> source, const nn::DecoderConfig& config,
             std::int64_t tokens)
      : source_(std::move(source)), entries_(source_->entries()), tokens_(tokens) {
    const nn::DecoderNames names = nn::decoder_names(config);
    for (const char* name : {names.tokens, names.head}) {
      const auto it = entries_.find(name + std::string(".weight"));
      if (it == entries_.end() || it->second.shape.rank() != 2) continue;
      it->second.type = nullptr;  // computed
      it->second.shape[0] = tokens;
      grown_.push_back(it->first);
    }
  }
  const std::string& name() const override { return source_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return source_->metadata(); }

 private:
  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return source_->stored(tensor);
  }
  Tensor compute(const std::string& tensor, DType as) const override {
    const Tensor own = source_->read(tensor, as);
    if (std::count(grown_.begin(), grown_.end(), tensor) == 0) return own;
    return as == DType::f64 ? with_mean_rows<double>(own, tokens_)
                            : with_mean_rows<float>(own, tokens_);
  }

  std::shared_ptr<const TensorSource> source_;
  Entries entries_;
  std::int64_t tokens_;
  std::vector<std::string> grown_;
};

}  // namespace

std::int64_t add_chatml(OpenedModel& model) {
  if (chat_template_of(model.settings, model.tokenizer)) return 0;
  const data::Tokenizer tokenizer = with_chatml_tokens(model.tokenizer);
  const std::int64_t before = model.config.vocab_size;
  const std::int64_t added = std::max<std::int64_t>(tokenizer.vocab_size() - before, 0);
  if (added > 0) {
    model.weights =
        std::make_shared<MoreTokens>(model.weights, model.config, tokenizer.vocab_size());
    model.config.vocab_size = tokenizer.vocab_size();
  }
  model.settings = with_ends(
      settings_with_template(model.settings, tokenizer, data::ChatTemplate::chatml()), tokenizer);
  model.tokenizer = tokenizer;
  return added;
}

}  // namespace tapegrad::run
