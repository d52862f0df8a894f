#include "tapegrad/apps/serve/api/response_output.h"

#include <fmt/format.h>

#include <utility>

namespace tapegrad::serve {
namespace {

Json text_part() {
  return {{"type", "output_text"},
          {"text", ""},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

}  // namespace

// An event of the last item, or of its content.
void ResponseOutput::emit(const char* type, Json members, bool in_content) const {
  if (!emit_) return;
  Json about = Json::object();
  if (in_content) about["item_id"] = items_.back()["id"];
  about["output_index"] = items_.size() - 1;
  if (in_content) about["content_index"] = 0;
  about.update(members);
  emit_(type, std::move(about));
}

void ResponseOutput::begin_message() {
  items_.push_back({{"id", fmt::format("msg_{}{:02x}", id_, items_.size())},
                    {"type", "message"},
                    {"status", "in_progress"},
                    {"role", "assistant"},
                    {"content", Json::array()}});
  open_ = true;
  emit("response.output_item.added", {{"item", items_.back()}}, false);
  items_.back()["content"].push_back(text_part());
  emit("response.content_part.added", {{"part", text_part()}}, true);
}

void ResponseOutput::add_text(const std::string& text, const Json& logprobs) {
  if (!open_) begin_message();
  Json& part = items_.back()["content"][0];
  part["text"].get_ref<std::string&>() += text;
  for (const Json& token : logprobs) part["logprobs"].push_back(token);
  emit("response.output_text.delta", {{"delta", text}, {"logprobs", logprobs}}, true);
}

void ResponseOutput::end(bool complete) {
  if (items_.empty()) begin_message();
  if (!std::exchange(open_, false)) return;
  Json& item = items_.back();
  item["status"] = complete ? "completed" : "incomplete";
  if (!emit_) return;
  const Json& part = item["content"][0];
  emit("response.output_text.done", {{"text", part["text"]}, {"logprobs", part["logprobs"]}}, true);
  emit("response.content_part.done", {{"part", part}}, true);
  emit("response.output_item.done", {{"item", item}}, false);
}

Json ResponseOutput::items() const {
  Json items = items_;
  if (open_) items.back()["status"] = "incomplete";
  return items;
}

}  // namespace tapegrad::serve
