#pragma once

#include "tapegrad/nn/decoder.h"

namespace tapegrad::run {

// What nn::Decoder::hidden() gives of whole windows, whose keys and values are stored as `cache`.
// Error for documents that are kept apart, unless that is f32.
Tensor hidden_of(const nn::Decoder& model, const nn::TokenRows& windows, CacheType cache);

// How much a model's predictions differ from another's, such as the same one in f32: over the
// tokens that were predicted.
struct Comparison {
  double loss = 0, perplexity = 0;  // of the other model
  // Mean of Σ p·log(p / q): p the other model's distribution, q this one's (Kullback & Leibler, "On
  // Information and Sufficiency", 1951), in nats.
  double divergence = 0;
  double same_choice = 0;  // share of tokens for which both find the same one likeliest
};

// Adds up a Comparison. Both models have one vocabulary, and must outlive it. The other one has
// keys and values in f32.
class Comparing {
 public:
  Comparing(const nn::Decoder& model, const nn::Decoder& other) : model_(model), other_(other) {}
  // `hidden`: what hidden_of() gives of the model and these inputs, which several comparisons
  // share.
  void add(const nn::TokenRows& inputs, const Tensor& targets, const Tensor& hidden);
  Comparison result() const;  // at least one token must have been predicted

 private:
  void add_rows(const Tensor& ours, const Tensor& theirs, const Tensor& targets);

  const nn::Decoder &model_, &other_;
  std::int64_t tokens_ = 0, same_ = 0;
  double nats_ = 0, divergence_ = 0;
};

}  // namespace tapegrad::run
