#pragma once

#include "tapegrad/data/loader.h"
#include "tapegrad/nn/decoder.h"

namespace tapegrad::run {

// How much a model's predictions differ from another's, such as the same one in f32: over the
// tokens that were predicted.
struct Comparison {
  double loss = 0, perplexity = 0;  // of the other model
  // Mean of Σ p·log(p / q): p the other model's distribution, q this one's (Kullback & Leibler, "On
  // Information and Sufficiency", 1951), in nats.
  double divergence = 0;
  double same_choice = 0;  // share of tokens for which both find the same one likeliest
};

// Adds up a Comparison. Both models have one vocabulary, and must outlive it.
class Comparing {
 public:
  Comparing(const nn::Decoder& model, const nn::Decoder& other) : model_(model), other_(other) {}
  void add(const data::Batch& batch);
  Comparison result() const;  // at least one token must have been predicted

 private:
  void add_rows(const Tensor& ours, const Tensor& theirs, const Tensor& targets);

  const nn::Decoder &model_, &other_;
  std::int64_t tokens_ = 0, same_ = 0;
  double nats_ = 0, divergence_ = 0;
};

}  // namespace tapegrad::run
