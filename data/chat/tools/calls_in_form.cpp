#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/chat/internal/chat_json.h"
#include "tapegrad/data/chat/internal/tool_lines.h"
#include "tapegrad/data/chat/tools/internal/call_form.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kShortId = 9;

bool is_short_id(std::string_view id) {
  return id.size() == kShortId && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
         });
}

// Short ids in place of others: of two ids, never the same one.
class ShortIds {
 public:
  void keep(const std::string& id) {
    if (is_short_id(id)) kept_.insert(id);
  }
  // "": an id that is nowhere else.
  std::string of(const std::string& id) {
    if (kept_.contains(id)) return id;
    if (id.empty()) return next();
    const auto [place, is_new] = made_.try_emplace(id);
    if (is_new) place->second = next();
    return place->second;
  }

 private:
  std::string next() {
    std::string id;
    do {
      id = fmt::format("{:0{}}", ++count_, kShortId);
    } while (kept_.contains(id));
    return id;
  }

  std::set<std::string> kept_;
  std::map<std::string, std::string> made_;
  std::size_t count_ = 0;
};

class CallsInForm {
 public:
  CallsInForm(const CallForm& form, const RenderLimits& most) : form_(form), most_(most) {}

  std::vector<Message> of(std::vector<Message> messages) {
    std::vector<Json> read;
    for (const Message& message : messages) {
      look();
      read.push_back(message.json.empty() ? Json::object() : chat_json(message.json, "a message"));
      keep_ids(read.back());
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      look();
      if (messages[i].role == "tool") {
        add_result(std::move(messages[i]), std::move(read[i]));
        continue;
      }
      end_calls();
      if (calls_in(read[i]) != nullptr) {
        add_calls(std::move(read[i]));
      } else {
        made_.push_back(std::move(messages[i]));
      }
    }
    end_calls();
    return std::move(made_);
  }

 private:
  struct Call {
    std::string id, name;
    std::size_t piece;  // that has it
    bool answered = false;
  };
  struct Result {
    std::size_t order;  // of its call
    Message message;
  };
  struct Piece {
    Message calls;
    std::vector<Result> results = {};
  };

  void look() const {
    if (most_.look) most_.look();
  }

  void keep_ids(Json& message) {
    Json* calls = calls_in(message);
    if (calls == nullptr) return;
    for (const Json& call : *calls) short_ids_.keep(text_in(call, "id"));
  }

  void add_calls(Json message) {
    message = in_form(std::move(message), form_);
    Json calls = std::move(*calls_in(message));
    Json more = {{"role", message["role"]}, {"content", form_.no_content ? Json() : Json("")}};
    next_ = calls_.size();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      Json& call = calls[i];
      Call made{.id = text_in(call, "id"), .name = {}, .piece = form_.single ? i : 0};
      if (call.is_object()) {
        made.name = text_in(function_in(call), "name");
        const std::string given = made.id;
        if (form_.short_ids) call["id"] = made.id = short_ids_.of(given);
        if (!given.empty()) by_id_[given] = calls_.size();
      }
      calls_.push_back(std::move(made));
      if (!form_.single) continue;
      Json& one = i == 0 ? message : more;
      one["tool_calls"] = Json::array({call});
      pieces_.push_back({message_of_json(json_text(one))});
    }
    if (form_.single) return;
    message["tool_calls"] = std::move(calls);
    pieces_.push_back({message_of_json(json_text(message))});
  }

  // The index of a result's call, or the number of calls.
  std::size_t call_of(const std::string& id) {
    if (!id.empty()) {
      const auto found = by_id_.find(id);
      return found == by_id_.end() ? calls_.size() : found->second;
    }
    while (next_ < calls_.size() && calls_[next_].answered) ++next_;
    return next_;
  }

  void add_result(Message message, Json json) {
    const std::string id = text_in(json, "tool_call_id");
    const std::size_t order = call_of(id);
    Call* call = order < calls_.size() ? &calls_[order] : nullptr;
    if (call != nullptr) call->answered = true;
    const bool name = form_.names && call != nullptr && text_in(json, "name").empty();
    if (name || form_.short_ids) {
      if (message.json.empty()) json = chat_json(json_of_message(message), "a message");
      if (name) json["name"] = call->name;
      if (form_.short_ids) json["tool_call_id"] = call != nullptr ? call->id : short_ids_.of(id);
      message = message_of_json(json_text(json));
    }
    if (pieces_.empty()) {
      made_.push_back(std::move(message));
      return;
    }
    // A call of an earlier answer has no piece any more.
    const bool here = call != nullptr && order >= first_;
    pieces_[here ? call->piece : pieces_.size() - 1].results.push_back({order, std::move(message)});
  }

  void end_calls() {
    for (Piece& piece : pieces_) {
      std::stable_sort(piece.results.begin(), piece.results.end(),
                       [](const Result& a, const Result& b) { return a.order < b.order; });
      made_.push_back(std::move(piece.calls));
      for (Result& result : piece.results) made_.push_back(std::move(result.message));
    }
    pieces_.clear();
    first_ = calls_.size();
  }

  const CallForm& form_;
  const RenderLimits& most_;
  ShortIds short_ids_;
  std::vector<Message> made_;
  std::vector<Call> calls_;  // of all answers
  std::map<std::string, std::size_t> by_id_;
  std::size_t first_ = 0;      // of the last answer with calls
  std::size_t next_ = 0;       // that may be without a result
  std::vector<Piece> pieces_;  // of that answer
};

}  // namespace

std::vector<Message> in_form(std::vector<Message> messages, const CallForm& form,
                             const RenderLimits& most) {
  return CallsInForm(form, most).of(std::move(messages));
}

}  // namespace tapegrad::data
