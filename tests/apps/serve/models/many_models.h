#pragma once

#include <filesystem>
#include <string>

#include "tapegrad/tests/apps/serve/running_server.h"

// A folder of tiny models whose texts differ, for `serve --models-dir`.
struct ManyModels {
  TempFolder folder;
  std::filesystem::path path = folder / "models";

  explicit ManyModels(const Args& names) {
    std::filesystem::create_directories(path);
    for (const std::string& name : names) add(name);
  }

  // The model of tiny_chat_model() with another epsilon, by its name.
  void add(const std::string& name) const {
    std::filesystem::copy(tiny_chat_model().path, path / name,
                          std::filesystem::copy_options::recursive);
    Fields config = Fields::parse(TempFolder::get(path / name / "config.json"));
    config["rms_norm_eps"] = 0.01 * static_cast<double>(name.back() % 16);
    put(name + "/config.json", config.dump());
  }
  void put(const std::string& name, const std::string& bytes) const {
    folder.put("models/" + name, bytes);
  }
  // A model of 48 million zeros, with which a server is busy for a while. The file has a hole.
  void add_large(const std::string& name) const {
    constexpr int kWidth = 16, kInside = 1'000'000;
    add(name);
    Fields config = Fields::parse(TempFolder::get(path / name / "config.json"));
    config["intermediate_size"] = kInside;
    config["num_hidden_layers"] = 1;
    config["layer_types"] = {"full_attention"};
    put(name + "/config.json", config.dump());
    Fields header;
    std::size_t at = 0;
    const auto tensor = [&](const std::string& tensor_name, const std::vector<std::size_t>& shape) {
      std::size_t bytes = 4;
      for (const std::size_t size : shape) bytes *= size;
      header[tensor_name] = {
          {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
      at += bytes;
    };
    const std::string layer = "model.layers.0.";
    tensor("model.embed_tokens.weight", {404, kWidth});
    tensor("model.norm.weight", {kWidth});
    tensor(layer + "input_layernorm.weight", {kWidth});
    tensor(layer + "post_attention_layernorm.weight", {kWidth});
    tensor(layer + "mlp.gate_proj.weight", {kInside, kWidth});
    tensor(layer + "mlp.up_proj.weight", {kInside, kWidth});
    tensor(layer + "mlp.down_proj.weight", {kWidth, kInside});
    tensor(layer + "self_attn.o_proj.weight", {kWidth, kWidth});
    for (const auto& [part, rows] : {std::pair{"q", 16U}, {"k", 8U}, {"v", 8U}}) {
      const std::string start = layer + "self_attn." + part + "_proj.";
      tensor(start + "weight", {rows, kWidth});
      tensor(start + "bias", {rows});
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    std::string size(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) size[i] = static_cast<char>(text.size() >> (8 * i) & 255);
    const auto file = path / name / "model.safetensors";
    std::filesystem::remove(file);
    put(name + "/model.safetensors", size + text);
    std::filesystem::resize_file(file, 8 + text.size() + at);
  }
};

// `serve` with a folder of models.
class FolderServer : public RunningServer {
 public:
  explicit FolderServer(const std::filesystem::path& folder, const Args& more = {})
      : RunningServer("--models-dir", folder, more) {}
};

inline Fields request_for(const std::string& model, int seed = 3, int max_tokens = 30) {
  return {{"model", model}, {"prompt", "once upon"}, {"max_tokens", max_tokens},
          {"seed", seed},   {"ignore_eos", true},    {"top_k", 50}};
}
// The text of such a request, by the model alone.
inline std::string alone(const std::filesystem::path& model, int seed = 3, int max_tokens = 30) {
  return sampled("once upon",
                 {"--max-new-tokens", std::to_string(max_tokens), "--seed", std::to_string(seed),
                  "--top-k", "50", "--temperature", "1", "--ignore-eos"},
                 model);
}

// A request whose answer is read later.
inline Browser begun(int port, const Fields& body) {
  const std::string text = body.dump();
  Browser browser(port);
  browser.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(text.size()) + "\r\n\r\n" + text);
  return browser;
}

// What /v1/models tells of a model.
inline Fields told_of(int port, const std::string& name) {
  const Reply reply = get(port, "/v1/models/" + name);
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  return Fields::parse(reply.body);
}
inline std::string status_of(int port, const std::string& name) {
  return told_of(port, name)["status"]["value"];
}
inline std::string status_of(const RunningServer& server, const std::string& name) {
  return status_of(server.port, name);
}
inline Fields error_of(const Reply& reply, int status) {
  INFO(reply.head << "\n" << reply.body);
  REQUIRE(reply.status == status);
  return Fields::parse(reply.body)["error"];
}
