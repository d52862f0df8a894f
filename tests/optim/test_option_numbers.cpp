#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/nn/layers/image_layers.h"
#include "tapegrad/nn/layers/recurrent.h"
#include "tapegrad/nn/layers/torch_attention.h"
#include "tapegrad/optim/lr_schedulers.h"
#include "tapegrad/optim/optimizers/adagrad.h"
#include "tapegrad/optim/optimizers/adam.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/optim/optimizers/lion.h"
#include "tapegrad/optim/optimizers/muon.h"
#include "tapegrad/optim/optimizers/nadam.h"
#include "tapegrad/optim/optimizers/rmsprop.h"
#include "tapegrad/optim/optimizers/sgd.h"
#include "tapegrad/optim/optimizers/soap.h"
#include "tapegrad/optim/schedule.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::optim;
using namespace tapegrad::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// A number of a struct of options: what uses the struct with it, and a value out of its range, if
// there is a finite one.
struct NumberCase {
  std::string member;  // as errors name it
  std::function<void(double)> use;
  double wrong = std::numeric_limits<double>::quiet_NaN();
};

// Optimisers with one option set.
template <class Optimizer, class Options>
std::function<void(double)> updates(double Options::*member) {
  return [member](double value) {
    Options options;
    options.*member = value;
    Optimizer({{"w", Tensor::zeros({2, 2}).set_requires_grad()}}, options);
  };
}
// Schedules, which a call computes.
template <class Schedules>
std::function<void(double)> schedules(double Schedules::*member) {
  return [member](double value) {
    Schedules s;
    s.*member = value;
    if constexpr (requires { s.validate(); }) {
      s.validate();
    } else if constexpr (requires { s.step(1.0); }) {
      s.step(1);
    } else {
      s(0);
    }
  };
}

std::vector<NumberCase> optimizers() {
  return {
      {"[AdamWOptions] beta1", updates<AdamW>(&AdamWOptions::beta1), 1},
      {"[AdamWOptions] beta2", updates<AdamW>(&AdamWOptions::beta2), -0.1},
      {"[AdamWOptions] eps", updates<AdamW>(&AdamWOptions::eps), 0},
      {"[AdamWOptions] weight_decay", updates<AdamW>(&AdamWOptions::weight_decay), -1},
      {"[AdamOptions] beta1", updates<Adam>(&AdamOptions::beta1), 1},
      {"[AdamOptions] beta2", updates<Adam>(&AdamOptions::beta2), 1},
      {"[AdamOptions] eps", updates<Adam>(&AdamOptions::eps), 0},
      {"[AdamOptions] weight_decay", updates<Adam>(&AdamOptions::weight_decay), -1},
      {"[AdagradOptions] lr_decay", updates<Adagrad>(&AdagradOptions::lr_decay), -1},
      {"[AdagradOptions] weight_decay", updates<Adagrad>(&AdagradOptions::weight_decay), -1},
      {"[AdagradOptions] initial_accumulator_value",
       updates<Adagrad>(&AdagradOptions::initial_accumulator_value), -1},
      {"[AdagradOptions] eps", updates<Adagrad>(&AdagradOptions::eps), 0},
      {"[LionOptions] beta1", updates<Lion>(&LionOptions::beta1), 1},
      {"[LionOptions] beta2", updates<Lion>(&LionOptions::beta2), 1},
      {"[LionOptions] weight_decay", updates<Lion>(&LionOptions::weight_decay), -1},
      {"[MuonOptions] momentum", updates<Muon>(&MuonOptions::momentum), 1},
      {"[MuonOptions] weight_decay", updates<Muon>(&MuonOptions::weight_decay), -1},
      {"[MuonOptions] eps", updates<Muon>(&MuonOptions::eps), 0},
      {"[MuonOptions] ns_coefficients[1]",
       [](double v) {
         MuonOptions options;
         options.ns_coefficients[1] = v;
         Muon({{"w", Tensor::zeros({2, 2}).set_requires_grad()}}, options);
       }},
      {"[NAdamOptions] beta1", updates<NAdam>(&NAdamOptions::beta1), 1},
      {"[NAdamOptions] beta2", updates<NAdam>(&NAdamOptions::beta2), 1},
      {"[NAdamOptions] eps", updates<NAdam>(&NAdamOptions::eps), 0},
      {"[NAdamOptions] weight_decay", updates<NAdam>(&NAdamOptions::weight_decay), -1},
      {"[NAdamOptions] momentum_decay", updates<NAdam>(&NAdamOptions::momentum_decay), -1},
      {"[RMSpropOptions] alpha", updates<RMSprop>(&RMSpropOptions::alpha), 1},
      {"[RMSpropOptions] eps", updates<RMSprop>(&RMSpropOptions::eps), 0},
      {"[RMSpropOptions] weight_decay", updates<RMSprop>(&RMSpropOptions::weight_decay), -1},
      {"[RMSpropOptions] momentum", updates<RMSprop>(&RMSpropOptions::momentum), 1},
      {"[SGDOptions] momentum", updates<SGD>(&SGDOptions::momentum), 1},
      {"[SGDOptions] weight_decay", updates<SGD>(&SGDOptions::weight_decay), -1},
      {"[SOAPOptions] beta1", updates<SOAP>(&SOAPOptions::beta1), 1},
      {"[SOAPOptions] beta2", updates<SOAP>(&SOAPOptions::beta2), -0.1},
      {"[SOAPOptions] eps", updates<SOAP>(&SOAPOptions::eps), 0},
      {"[SOAPOptions] weight_decay", updates<SOAP>(&SOAPOptions::weight_decay), -1},
      {"[Schedule] learning_rate", schedules(&Schedule::learning_rate), -1},
      {"[Schedule] min_lr", schedules(&Schedule::min_lr), -1},
      {"[Schedule] decay_share", schedules(&Schedule::decay_share), 1.5},
      {"[Schedule] gamma", schedules(&Schedule::gamma), -1},
      {"[DecayFactor] end", schedules(&DecayFactor::end), -1},
      {"[StepLR] learning_rate", schedules(&StepLR::learning_rate), -1},
      {"[StepLR] gamma", schedules(&StepLR::gamma), -1},
      {"[MultiStepLR] learning_rate", schedules(&MultiStepLR::learning_rate), -1},
      {"[MultiStepLR] gamma", schedules(&MultiStepLR::gamma), -1},
      {"[ExponentialLR] learning_rate", schedules(&ExponentialLR::learning_rate), -1},
      {"[ExponentialLR] gamma", schedules(&ExponentialLR::gamma), -1},
      {"[CosineAnnealingWarmRestarts] learning_rate",
       schedules(&CosineAnnealingWarmRestarts::learning_rate), -1},
      {"[CosineAnnealingWarmRestarts] eta_min", schedules(&CosineAnnealingWarmRestarts::eta_min),
       -1},
      {"[OneCycleLR] max_lr", schedules(&OneCycleLR::max_lr), -1},
      {"[OneCycleLR] pct_start", schedules(&OneCycleLR::pct_start), 1.5},
      {"[OneCycleLR] div_factor", schedules(&OneCycleLR::div_factor), 0},
      {"[OneCycleLR] final_div_factor", schedules(&OneCycleLR::final_div_factor), 0},
      {"[ReduceLROnPlateau] lr", schedules(&ReduceLROnPlateau::lr), -1},
      {"[ReduceLROnPlateau] factor", schedules(&ReduceLROnPlateau::factor), 1},
      {"[ReduceLROnPlateau] threshold", schedules(&ReduceLROnPlateau::threshold), -1},
      {"[ReduceLROnPlateau] min_lr", schedules(&ReduceLROnPlateau::min_lr), -1},
      {"[ReduceLROnPlateau] eps", schedules(&ReduceLROnPlateau::eps), -1},
  };
}

std::vector<NumberCase> ops_and_layers() {
  const Tensor x = Tensor::ones({1, 2, 6}), row = Tensor::ones({2}), one = Tensor::ones({1});
  const auto attend = [x](double ScoreOptions::*member) {
    return [x, member](double v) {
      AttentionOptions options;
      options.scores.*member = v;
      attention(x, 1, options);
    };
  };
  const auto turn = [x](double RopeScaling::*member,
                        RopeScaling::Kind kind = RopeScaling::Kind::llama3) {
    return [x, member, kind](double v) {
      RopeScaling scaling{.kind = kind};
      scaling.*member = v;
      rope(x, 2, {.scaling = scaling});
    };
  };
  const auto apart = [x](double TripletMarginOptions::*member) {
    return [x, member](double v) {
      TripletMarginOptions options;
      options.*member = v;
      triplet_margin_loss(x, x, x, options);
    };
  };
  // Makes a layer of new parameters.
  const auto with_params = [](auto make) {
    return [make](double v) {
      Rng rng(1);
      make(nn::Params(rng), v);
    };
  };
  return {
      {"[LayerNormOptions] eps", [x](double v) { layer_norm(x, {}, {}, {.eps = v}); }, -1},
      {"[rms_norm] eps", [x](double v) { rms_norm(x, {}, v); }, -1},
      {"[batch_norm] eps", [x](double v) { batch_norm(x, {}, {}, v); }, -1},
      {"[LayerNormOptions] eps", [x](double v) { group_norm(x, 1, {}, {}, v); }, -1},
      {"[ScoreOptions] scale", attend(&ScoreOptions::scale), -1},
      {"[ScoreOptions] softcap", attend(&ScoreOptions::softcap), -1},
      {"[AttentionOptions] dropout", [x](double v) { attention(x, 1, {.dropout = v}); }, 1.5},
      {"[RopeOptions] base", [x](double v) { rope(x, 2, {.base = v}); }, 0},
      {"[RopeScaling] factor", turn(&RopeScaling::factor), 0},
      {"[RopeScaling] low_freq_factor", turn(&RopeScaling::low_freq_factor), 0},
      {"[RopeScaling] high_freq_factor", turn(&RopeScaling::high_freq_factor), 0},
      {"[RopeScaling] beta_fast", turn(&RopeScaling::beta_fast, RopeScaling::Kind::yarn), 0},
      {"[RopeScaling] beta_slow", turn(&RopeScaling::beta_slow, RopeScaling::Kind::yarn), 0},
      {"[RopeScaling] attention_factor",
       turn(&RopeScaling::attention_factor, RopeScaling::Kind::yarn), 0},
      {"[smooth_l1_loss] beta", [x](double v) { smooth_l1_loss(x, x, v); }, 0},
      {"[huber_loss] delta", [x](double v) { huber_loss(x, x, v); }, 0},
      {"[hinge_embedding_loss] margin", [one](double v) { hinge_embedding_loss(one, one, v); }},
      {"[margin_ranking_loss] margin", [one](double v) { margin_ranking_loss(one, one, one, v); }},
      {"[cosine_embedding_loss] margin",
       [row](double v) { cosine_embedding_loss(row, row, Tensor::ones({}), v); }},
      {"[TripletMarginOptions] margin", apart(&TripletMarginOptions::margin), 0},
      {"[TripletMarginOptions] p", apart(&TripletMarginOptions::p), 0},
      {"[TripletMarginOptions] eps", apart(&TripletMarginOptions::eps), -1},
      {"[BatchNormOptions] eps",
       with_params([](const nn::Params& p, double v) { nn::BatchNorm(p, 2, {.eps = v}); }), -1},
      {"[BatchNormOptions] momentum",
       with_params([](const nn::Params& p, double v) { nn::BatchNorm(p, 2, {.momentum = v}); }),
       1.5},
      {"[RecurrentOptions] dropout", with_params([](const nn::Params& p, double v) {
         nn::recurrent_weights(p, 1, 2, 2, {.dropout = v});
       }),
       1.5},
      {"[TorchAttentionOptions] dropout", with_params([](const nn::Params& p, double v) {
         nn::TorchAttention(p, 2, 1, {.dropout = v});
       }),
       1.5},
  };
}

void check_refused(const std::vector<NumberCase>& cases) {
  for (const NumberCase& c : cases) {
    for (const double value : {std::nan(""), kInf, -kInf, c.wrong}) {
      CAPTURE(c.member, value);
      CHECK_THROWS_WITH(c.use(value), ContainsSubstring(c.member + " must be") &&
                                          ContainsSubstring(fmt::format("not {}", value)));
    }
  }
}

}  // namespace

TEST_CASE("each number of optimisers and schedules is checked, by struct and member",
          "[option-numbers]") {
  check_refused(optimizers());
}

TEST_CASE("each number of ops' and layers' options is checked, by struct and member",
          "[option-numbers]") {
  check_refused(ops_and_layers());
}
