#pragma once

#include <functional>
#include <string>
#include <utility>

#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::serve {

// The items of a response as they are made, and the events that say how they grow. One item grows
// at a time: what belongs to another kind of item ends it.
class ResponseOutput {
 public:
  // Takes an event's type and its members.
  using Emit = std::function<void(const char* type, Json members)>;
  // `id`: of the answer. Without `emit` there are no events.
  ResponseOutput(std::string id, Emit emit) : id_(std::move(id)), emit_(std::move(emit)) {}

  // A part of a message, with the log probabilities of its tokens or none.
  void add_text(const std::string& text, const Json& logprobs);
  // Ends the item that grows. An output without any gets an empty message.
  void end(bool complete);
  // All items. The one that grows is incomplete.
  Json items() const;

 private:
  void begin_message();
  void emit(const char* type, Json members, bool in_content) const;

  const std::string id_;
  const Emit emit_;
  Json items_ = Json::array();
  bool open_ = false;  // the last of them
};

}  // namespace tapegrad::serve
