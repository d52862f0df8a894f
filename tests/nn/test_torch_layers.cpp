// Layers with PyTorch's names, against the numbers of golden_layers.py.

#include <functional>
#include <map>
#include <string>

#include "tapegrad/autograd/tensor/safetensors.h"
#include "tapegrad/nn/image_layers.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Given = std::map<std::string, Tensor>;
// Makes a layer of the parameters, and runs it on the inputs of the file.
using LayerRun = std::function<Tensor(const nn::Params& p, const Given& in)>;

const std::map<std::string, LayerRun>& torch_layers() {
  static const std::map<std::string, LayerRun> layers = {
      {"transposed",
       [](const nn::Params& p, const Given& in) {
         const nn::ConvTranspose2d layer(
             p, 4, 6, {3, 2},
             {.stride = {2, 1}, .padding = 1, .output_padding = {1, 0}, .groups = 2});
         return layer(in.at("input"));
       }},
      {"transposed_plain",
       [](const nn::Params& p, const Given& in) {
         return nn::ConvTranspose2d(p, 3, 2, 4, {.stride = 2, .padding = 1}, false)(in.at("input"));
       }},
  };
  return layers;
}

// The tensors of one layer and dtype, without the prefix.
Given facts_of(const std::string& layer, DType dtype) {
  static const Given all = load_safetensors(golden_file("layers.safetensors").string()).tensors;
  const std::string prefix = layer + (dtype == DType::f32 ? "/f32/" : "/f64/");
  Given facts;
  for (const auto& [key, t] : all) {
    if (key.rfind(prefix, 0) == 0) facts[key.substr(prefix.size())] = t;
  }
  return facts;
}

nn::Params stored_params(const std::string& layer, DType dtype) {
  const std::string prefix = layer + (dtype == DType::f32 ? "/f32/" : "/f64/") + "param/";
  return nn::Params(open_safetensors(golden_file("layers.safetensors").string()), dtype,
                    Precision::full, nn::NameMap({{.prefix = "", .source_prefix = prefix}}));
}

}  // namespace

TEST_CASE("PyTorch's layers draw its bits under its names", "[torch_layers][golden]") {
  for (const auto& [name, run] : torch_layers()) {
    Given facts = facts_of(name, DType::f32);
    Rng rng(123);
    const nn::Params params(rng);
    run(params, facts);
    std::size_t found = 0;
    for (const auto& [key, t] : facts) found += key.rfind("param/", 0) == 0;
    CHECK(params.tensors().size() == found);
    for (const auto& [key, t] : params.tensors()) {
      INFO(name << ' ' << key);
      CHECK(same_bits(t, facts["param/" + key]));
    }
  }
}

TEST_CASE("a state_dict of PyTorch's layers gives its outputs and gradients",
          "[torch_layers][golden]") {
  for (const auto& [name, run] : torch_layers()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      Given facts = facts_of(name, dtype);
      const double near = dtype == DType::f32 ? 1e-6 : 1e-12;
      const nn::Params params = stored_params(name, dtype);
      Tape tape;
      std::vector<std::string> watched;
      for (const auto& [key, t] : facts) {
        if (facts.count("grad_" + key) == 0) continue;
        tape.watch(t);
        watched.push_back(key);
      }
      const Tensor y = run(params, facts);
      INFO(name << ' ' << name_of(dtype));
      CHECK(difference(y, facts["y"], near, near) == "");
      const Tensor loss = sum(y * cos(y));
      for (const std::string& key : watched) {
        INFO(key);
        CHECK(difference(tape.gradient(loss, {facts[key]}, {.keep = true})[0], facts["grad_" + key],
                         2 * near, 2 * near) == "");
      }
      tape.backward(loss);
      for (const auto& [key, t] : params.parameters()) {
        INFO(key);
        CHECK(difference(t.grad(), facts["grad/" + key], 4 * near, 4 * near) == "");
      }
    }
  }
}
