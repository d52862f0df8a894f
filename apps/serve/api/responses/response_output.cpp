#include "tapegrad/apps/serve/api/responses/response_output.h"

#include <fmt/format.h>

#include <utility>

namespace tapegrad::serve {

// An event of the last item, of what is in it, or of its content.
void ResponseOutput::emit(const char* type, Json members, About about) const {
  if (!emit_) return;
  Json event = {{"output_index", items_.size() - 1}};
  if (about != About::item) event["item_id"] = items_.back()["id"];
  if (about == About::content) event["content_index"] = 0;
  event.update(members);
  emit_(type, std::move(event));
}

void ResponseOutput::begin(const char* type, const char* id, const Json& members) {
  end_item(true);
  Json item = {{"id", fmt::format("{}_{}{:02x}", id, id_, items_.size())},
               {"type", type},
               {"status", "in_progress"}};
  item.update(members);
  items_.push_back(std::move(item));
  open_ = true;
  emit("response.output_item.added", {{"item", items_.back()}}, About::item);
}

void ResponseOutput::begin_content(Json part) {
  emit("response.content_part.added", {{"part", part}}, About::content);
  items_.back()["content"].push_back(std::move(part));
}

void ResponseOutput::begin_message() {
  begin("message", "msg", {{"role", "assistant"}, {"content", Json::array()}});
  begin_content({{"type", "output_text"},
                 {"text", ""},
                 {"annotations", Json::array()},
                 {"logprobs", Json::array()}});
}

void ResponseOutput::add_text(const std::string& text, const Json& logprobs) {
  if (!grows("message")) begin_message();
  Json& part = items_.back()["content"][0];
  part["text"].get_ref<std::string&>() += text;
  for (const Json& token : logprobs) part["logprobs"].push_back(token);
  emit("response.output_text.delta", {{"delta", text}, {"logprobs", logprobs}}, About::content);
}

void ResponseOutput::add_reasoning(const std::string& text) {
  if (!grows("reasoning")) {
    begin("reasoning", "rs", {{"summary", Json::array()}, {"content", Json::array()}});
    begin_content({{"type", "reasoning_text"}, {"text", ""}});
  }
  items_.back()["content"][0]["text"].get_ref<std::string&>() += text;
  emit("response.reasoning_text.delta", {{"delta", text}}, About::content);
}

void ResponseOutput::begin_call(const Json& call) {
  Json members = call;
  members["arguments"] = "";
  begin("function_call", "fc", members);
}

void ResponseOutput::add_arguments(const std::string& text) {
  items_.back()["arguments"].get_ref<std::string&>() += text;
  emit("response.function_call_arguments.delta", {{"delta", text}}, About::call);
}

void ResponseOutput::end_item(bool complete) {
  if (!std::exchange(open_, false)) return;
  Json& item = items_.back();
  item["status"] = complete ? "completed" : "incomplete";
  if (!emit_) return;
  if (item["type"] == "function_call") {
    emit("response.function_call_arguments.done",
         {{"name", item["name"]}, {"arguments", item["arguments"]}}, About::call);
  } else {
    const Json& part = item["content"][0];
    if (item["type"] == "message") {
      emit("response.output_text.done", {{"text", part["text"]}, {"logprobs", part["logprobs"]}},
           About::content);
    } else {
      emit("response.reasoning_text.done", {{"text", part["text"]}}, About::content);
    }
    emit("response.content_part.done", {{"part", part}}, About::content);
  }
  emit("response.output_item.done", {{"item", item}}, About::item);
}

void ResponseOutput::end(bool complete) {
  if (items_.empty()) begin_message();
  // A call that grows has no end.
  end_item(complete && !grows("function_call"));
}

Json ResponseOutput::items() const {
  Json items = items_;
  if (open_) items.back()["status"] = "incomplete";
  return items;
}

}  // namespace tapegrad::serve
