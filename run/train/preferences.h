#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/base/option_schema.h"
#include "tapegrad/data/loader.h"
#include "tapegrad/nn/decoder.h"

namespace tapegrad::run {

// Learning which of two answers is preferred. A sum over an answer's tokens of log π − log π_ref,
// where π is the model and π_ref the reference, tells how much likelier the answer has become: its
// reward is β times that. The margin of a pair is the reward of the chosen answer less that of the
// rejected one.
enum class PreferenceLoss {
  dpo,       // −log σ(margin) (Rafailov et al., "Direct Preference Optimization", 2023, eq. 7)
  dpo_norm,  // the same of means over an answer's tokens, not sums (Lambert et al., "Tulu 3", 2024,
             // section 5)
  orpo,  // the chosen answer's mean loss − β·log σ(log odds of the chosen answer less those of
         // the rejected one), by the geometric means of their tokens' probabilities, without a
         // reference (Hong et al., "ORPO", 2024, section 4, where β is λ)
};
inline constexpr std::string_view kPreferenceLossNames[] = {"dpo", "dpo-norm", "orpo"};
inline std::span<const std::string_view> names_of(PreferenceLoss) { return kPreferenceLossNames; }

struct PreferenceOptions {
  PreferenceLoss loss = PreferenceLoss::dpo;
  double beta = 0.1;

  bool has_reference() const { return loss != PreferenceLoss::orpo; }

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("preference_loss", o.loss,
      "loss of --preferences: dpo; dpo-norm, by means over tokens, for which long answers weigh no "
      "more; or orpo, which has no reference model",
      {.newer = true});
    t("beta", o.beta,
      "strength of --preferences: cost of leaving the reference (dpo), or weight of the odds "
      "beside the loss of the chosen answers (orpo)",
      {.least = 1e-6, .most = 1e3, .newer = true});
  }
};

// A batch of pairs (data::pair_tokens) as tensors.
struct PairRows {
  nn::TokenRows inputs;    // (B, T)
  Tensor places;           // (N) i32: where targets count, in B·T
  Tensor targets;          // (N) i32
  std::int64_t pairs = 0;  // P
  // (P, 2, L): for the chosen and the rejected answer of each pair, the indices of their tokens in
  // `places`, i32; 1 for each of them, 0 behind the last one; and 1/tokens for each of them.
  Tensor tokens, counts, shares;
};
PairRows pair_rows(const data::Batch& batch);

// The loss of pairs, a scalar that is their mean, and the margins (P), of which nothing is
// differentiated. For orpo, rewards are β times the mean log-probability.
struct PairLoss {
  Tensor value, margins;
};
// `reference` is null for a loss that has none; no tape records it, and it drops nothing out.
// Routers' losses are as nn::Decoder::loss() has them.
PairLoss preference_loss(const nn::Decoder& model, const nn::Decoder* reference,
                         const PairRows& rows, const PreferenceOptions& options,
                         Rng* dropout = nullptr, nn::RouterLosses* routers = nullptr);

// The report of margins: their mean, and the share of those above 0.
struct Margins {
  double mean = 0, accuracy = 0;
};
Margins margins_of(const Tensor& margins);

}  // namespace tapegrad::run
