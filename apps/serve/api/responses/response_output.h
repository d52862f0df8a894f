#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::serve {

// The items of a response as they are made, and the events that say how they grow. One item grows
// at a time: what belongs to another one ends it.
class ResponseOutput {
 public:
  // Takes an event's type and its members.
  using Emit = std::function<void(const char* type, Json members)>;
  // `id`: of the answer. Without `emit` there are no events.
  ResponseOutput(std::string id, Emit emit) : id_(std::move(id)), emit_(std::move(emit)) {}

  // A part of a message, with the log probabilities of its tokens or none.
  void add_text(const std::string& text, const Json& logprobs);
  void add_reasoning(const std::string& text);
  // `call`: its "call_id", "name" and perhaps "namespace".
  void begin_call(const Json& call);
  void add_arguments(const std::string& text);
  // Ends the item that grows, if one does.
  void end_item(bool complete);
  // The same at the end of all. An output without any item gets an empty message.
  void end(bool complete);
  // All items. The one that grows is incomplete.
  Json items() const;

 private:
  enum class About { item, call, content };
  bool grows(std::string_view type) const { return open_ && items_.back()["type"] == type; }
  void begin(const char* type, const char* id, const Json& members);
  void begin_content(Json part);
  void begin_message();
  void emit(const char* type, Json members, About about) const;

  const std::string id_;
  const Emit emit_;
  Json items_ = Json::array();
  bool open_ = false;  // the last of them
};

}  // namespace tapegrad::serve
