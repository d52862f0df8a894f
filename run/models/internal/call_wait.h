#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::run {

// What calls a function with each token that may be in a text, and its bytes.
using UseToken = std::function<void(data::Token, std::string_view)>;
using EachToken = std::function<void(const UseToken&)>;

// Waits in free text for what ends it.
class Wait {
 public:
  virtual ~Wait() = default;

  // How far a text is: how many bytes of the mark its end has.
  using Progress = std::size_t;
  static constexpr Progress kNever = SIZE_MAX;  // it will not come any more
  // What stands behind the mark if the text has it with these bytes.
  virtual std::optional<std::string> read(Progress& progress, std::string_view bytes) const = 0;

  // Finds the tokens that may not come, by what would stand behind the mark.
  void find_forbidden(const EachToken& each_token, Progress states,
                      const std::function<bool(const std::string&)>& fits) {
    forbidden_.resize(states);
    each_token([&](data::Token token, std::string_view bytes) {
      if (!may_have(bytes)) return;
      for (Progress state = 0; state < states; ++state) {
        Progress progress = state;
        const auto behind = read(progress, bytes);
        if (behind && !fits(*behind)) forbidden_[state].push_back(token);
      }
    });
  }
  std::span<const data::Token> forbidden(Progress progress) const {
    return progress < forbidden_.size() ? forbidden_[progress] : std::span<const data::Token>();
  }

 protected:
  virtual bool may_have(std::string_view bytes) const = 0;  // the end of the mark

 private:
  std::vector<std::vector<data::Token>> forbidden_;  // by the progress
};

// For a text, wherever it begins.
class WaitForText : public Wait {
 public:
  explicit WaitForText(std::string mark) : mark_(std::move(mark)) {}

  std::optional<std::string> read(Progress& progress, std::string_view bytes) const override {
    const std::string text = mark_.substr(0, progress) + std::string(bytes);
    const auto found = text.find(mark_);
    if (found != std::string::npos) return text.substr(found + mark_.size());
    progress = std::min(text.size(), mark_.size() - 1);
    while (!text.ends_with(std::string_view(mark_).substr(0, progress))) --progress;
    return std::nullopt;
  }

 protected:
  bool may_have(std::string_view bytes) const override {
    return bytes.find(mark_.back()) != std::string_view::npos;
  }

 private:
  const std::string mark_;
};

// For an answer that begins with a bracket, or with the mark `before` it: both belong to the calls.
// The progress is how many bytes of the mark the answer has.
class WaitForBracket : public Wait {
 public:
  WaitForBracket(char bracket, std::string_view before) : bracket_(bracket), before_(before) {}

  Progress states() const { return std::max<Progress>(before_.size(), 1); }

  std::optional<std::string> read(Progress& progress, std::string_view bytes) const override {
    if (progress == kNever) return std::nullopt;
    std::string text = before_.substr(0, progress) + std::string(bytes);
    text.erase(0, text.find_first_not_of(kSpaces));
    if (text.starts_with(bracket_)) return text;
    const std::string_view before = before_;
    if (!before.empty() && text.starts_with(before)) return text;
    progress = before.starts_with(text) ? text.size() : kNever;
    return std::nullopt;
  }

 protected:
  bool may_have(std::string_view bytes) const override {
    return bytes.find(bracket_) != std::string_view::npos ||
           (!before_.empty() && bytes.find(before_.back()) != std::string_view::npos);
  }

 private:
  const char bracket_;
  const std::string before_;
};

}  // namespace tapegrad::run
