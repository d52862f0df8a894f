// The encoder-decoder Transformer: its shapes, its size, its loss, and who sees whom.

#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/nn/transformer.h"

using namespace tapegrad;

namespace {

// Two layers on each side, four heads, 128 wide.
const nn::TransformerConfig config{.vocab_size = 1000, .block_size = 64, .n_hidden = 128};

Tensor random_ids(Rng& rng, const Shape& shape) {  // torch.randint(0, 1000, shape)
  std::vector<std::int32_t> ids;
  for (int i = 0; i < shape.numel(); ++i) {
    ids.push_back(static_cast<std::int32_t>(rng.randint(1000)));
  }
  return Tensor::from(ids, shape);
}

int lesson() {
  Rng rng(123);
  const nn::Params params(rng);
  const nn::Transformer model(params, config);
  nn::init_transformer(params, rng);  // N(0, 0.02), as the tutorials have it
  const Tensor source = random_ids(rng, {2, 7}), target = random_ids(rng, {2, 5});

  const Tensor encoded = model.encode(source);
  const Tensor decoded = model.decoder(model.embed(target), encoded);
  fmt::print("source       {} -> embedded {} -> encoded {}\n", source.shape(),
             model.embed(source).shape(), encoded.shape());
  fmt::print("target       {} -> embedded {} -> decoded {}\n", target.shape(),
             model.embed(target).shape(), decoded.shape());
  fmt::print("logits       {}, of the last token alone {}\n", model.lm_head(decoded).shape(),
             model.last_logits(source, target).shape());
  fmt::print("parameters   {}, without embeddings {}\n", grouped(params.count()),
             grouped(params.count() - model.wte.weight.numel()));
  fmt::print("positions    {}: {} tensors are saved, {} of them trained\n", model.pe.shape(),
             params.tensors().size(), params.parameters().size());

  Tensor labels = random_ids(rng, {2, 5});
  fmt::print("loss         {:.4f}", model.loss(source, target, labels).item());
  labels.mutable_data<std::int32_t>()[9] = -1;
  fmt::print(", with the last label ignored {:.4f}\n", model.loss(source, target, labels).item());

  Tensor changed = target.clone();
  changed.mutable_data<std::int32_t>()[3] += 1;  // the fourth token of the first target
  const Tensor apart = abs(model.hidden(source, changed) - model.hidden(source, target));
  fmt::print("\nAnother fourth target token changes what the decoder makes of\n");
  for (int t = 0; t < 5; ++t) {
    const double most = max(slice(slice(apart, 0, 0, 1), 1, t, t + 1)).item();
    fmt::print("  token {}: {}\n", t + 1, most > 0 ? fmt::format("up to {:.4f}", most) : "nothing");
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
