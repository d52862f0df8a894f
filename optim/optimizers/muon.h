#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

// How the learning rate of a matrix follows from its size: times √max(1, rows/columns) (original),
// or times 0.2·√max(rows, columns) (match_rms_adamw). An orthogonalised matrix has a root mean
// square of 1/√max(rows, columns); AdamW's updates have one of 0.2 to 0.4. So with match_rms_adamw,
// a learning rate and a weight decay that suit AdamW suit Muon (Liu et al. 2025, section 2.2).
enum class AdjustLr { original, match_rms_adamw };
inline constexpr std::string_view kAdjustLrNames[] = {"original", "match_rms_adamw"};
inline std::span<const std::string_view> names_of(AdjustLr) { return kAdjustLrNames; }

struct MuonOptions {
  double momentum = 0.95;
  // Steps until that momentum, from 0.85 on, as in modded-nanogpt, which takes 300; 0: at once.
  std::int64_t momentum_warmup = 0;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  AdjustLr adjust_lr = AdjustLr::match_rms_adamw;
  double weight_decay = 0.1;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;  // the least norm that a matrix is divided by

  // A run has weight_decay for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("muon_momentum", o.momentum, "decay of the mean gradient",
      {.least = 0, .most = 1, .below_most = true});
    t("muon_momentum_warmup", o.momentum_warmup,
      "steps in which that decay rises from 0.85; 0: it does not change",
      {.least = 0, .most = std::int64_t{1} << 40});
    t("muon_nesterov", o.nesterov, "look one step of the momentum ahead (Nesterov)");
    t("ns_steps", o.ns_steps, "Newton-Schulz iterations", {.least = 1, .most = 99});
    t("adjust_lr", o.adjust_lr,
      "learning rate of a matrix: match_rms_adamw fits AdamW's; original is that of the first "
      "paper");
  }
};

// Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; Liu et al.,
// "Muon is scalable for LLM training", arXiv 2502.16982), with the names and, but for adjust_lr,
// the defaults of torch.optim.Muon. For each matrix p with gradient g:
//   m ← μ·m + (1 − μ)·g,  u = μ·m + (1 − μ)·g with nesterov, else m,
//   X = u/max(‖u‖, eps),  then ns_steps times X ← (a·I + b·G + c·G²)·X with G = X·Xᵀ,
//   p ← p·(1 − lr·decay),  p ← p − lr·s·X, where s is AdjustLr's.
// ‖u‖ is the root of all squares; a, b and c are ns_coefficients. Five steps take singular values
// of X from 0.002 on to between about 0.7 and 1.2, and multiply smaller ones by 485 at most. A
// matrix with more rows than columns is multiplied by the polynomial of XᵀX from the right, which
// is the same and cheaper; some iterations of one that is not square are made on G alone, which
// rounds otherwise (kGramSteps in muon.cpp). A checkpoint has m as "momentum_buffer.<name>".
//
// All products are of p's own type. PyTorch rounds X to bf16, which is faster on GPUs; most
// processors have no instructions for it.
//
// Error for a parameter that is not a matrix. make_groups() with GroupRules of the optimiser "muon"
// gives all others, embeddings and the head to AdamW: see is_hidden_matrix.
class Muon : public OptimizerState {
 public:
  Muon(NamedTensors parameters, const MuonOptions& options = {});
};

// True for a matrix that is neither an embedding nor the head: no part of its name is wte, wpe,
// embed_tokens, embed_positions, lm_head or ngrams (nn/decoder_names.h).
bool is_hidden_matrix(std::string_view name, const Shape& shape);

// The rows at which a matrix begins that is orthogonalised by itself, and the number of all rows.
// They are {0, rows}, except for a weight with the outputs of several projections: a name that ends
// in c_attn.weight or qkv_proj.weight, of C columns and of 3·C rows, or fewer where heads share
// keys and values. There the first C rows make queries, half of the others keys, and the rest
// values. (This takes heads for as wide as the model, all in all: train-gpt asks for --separate-qkv
// where --head-size makes them otherwise.) As one matrix, all three would get singular values of
// about 1 together, so that the largest of them would leave the others less; as three, each of them
// gets its own, and training is that of the same model with separate projections.
std::vector<std::int64_t> muon_pieces(std::string_view name, const Shape& shape);

}  // namespace tapegrad::optim
